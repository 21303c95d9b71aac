"""Other people's software, as they publish it, against our API server."""

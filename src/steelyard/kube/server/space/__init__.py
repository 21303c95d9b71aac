"""One server's share of a store: where its objects are, how much it may hold, and following its changes."""

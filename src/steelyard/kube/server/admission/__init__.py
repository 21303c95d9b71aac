"""One request's way past the webhooks and policies, between what the server makes of it and what it stores."""

"""CEL in admission: what expressions speak of, compiling them, and the match conditions of webhooks and policies."""

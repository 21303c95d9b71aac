"""What one request may cost, and who gets how much of the event loop that all share."""

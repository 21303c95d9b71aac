"""Machine: one machine, from bootstrap data over infrastructure to a Node, and back."""

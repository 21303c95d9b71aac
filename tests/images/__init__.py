"""Images of machines: what is in them, how they are put together, and those that a host has."""

"""What touches the world. Providers know neither each other nor the controllers; they meet at the objects."""

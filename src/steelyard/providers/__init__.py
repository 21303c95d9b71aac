"""What touches the world, one package each; they do not know each other, and no claim. All share `toolkit`."""

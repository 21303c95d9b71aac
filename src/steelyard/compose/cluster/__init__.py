"""What all claims for clusters have in common: from a shape to objects, conditions and status."""

"""Claims of every kind: composed, applied, reported on, taken away in order."""

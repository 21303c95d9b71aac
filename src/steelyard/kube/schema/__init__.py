"""Structural schemas: one tree for built-in kinds and custom resources, to validate, prune, default and merge."""

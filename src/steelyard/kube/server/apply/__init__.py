"""Server-side apply: who manages which field of an object, and what happens when two managers disagree."""

"""What `kubectl get` shows: Tables, their columns, and for built-in kinds a function per cell."""

"""What one installation has on disk: the data directory and the lock on it, the platform's credentials and
encryption keys, what it remembers and misses, backup and restore.
"""

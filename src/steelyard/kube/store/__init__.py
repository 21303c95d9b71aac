"""Revisions on SQLite: an append-only log, the current state, watch, compaction."""

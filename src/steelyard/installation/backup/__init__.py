"""Backup and restore of a platform: one archive with all it takes to serve again. docs/backup.md is the contract."""

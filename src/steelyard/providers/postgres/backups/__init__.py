"""DatabaseBackup: dumps by schedule and when asked for. `plan.py` decides, `reconcile.py` has them made (`dumps/`)."""

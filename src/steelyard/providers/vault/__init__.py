"""Vault: brings about External Secrets' stores, pushes and pulls, and VaultEntry, with a Vault or OpenBao behind them.

`unit.py` is what the platform starts, `starting.py` what that loads. `stores.py` makes connections of stores and says
who may use one; `validating.py`, `pushing.py`, `pulling.py` and `entries.py` reconcile; `templates.py` fills in what a
push or a pull has as a template.
"""

"""PostgreSQL: the server that the platform brings along, and what is made on any server that the platform file names.

`unit.py` describes the provider to the platform. `servers.py` is the way to each server; `embedded/` runs those of our
own. `managed.py` is what all kinds of Crossplane's provider-sql have in common; `databases.py`, `roles.py`,
`grants.py`, `extensions.py` and `schemas.py` are the kinds, each to the effect that provider-sql has. `drift.py`
notices what changed behind our back. Nothing here is imported before the first object needs it, apart from `unit.py`,
`parts.py` and `servers.py`: a platform without databases does not pay for the driver.
"""

"""Caches as processes of this machine: every RedisServer is one redis-server, or a primary with its replicas.

`unit.py` is what the platform starts, `reconcile.py` what is done for one object. It works on a `fleet.py` of servers:
`program.py` finds redis-server and the user that runs it, `folders.py` has their places, `configuration.py` and
`accounts.py` (pure) what they are told, `processes.py` starts, finds and ends them, `wire.py` talks to them,
`server.py` is one of them, `replication.py` (pure) says who is the primary. `credentials.py` has their passwords.
"""

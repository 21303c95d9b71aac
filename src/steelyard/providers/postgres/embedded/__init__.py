"""A PostgreSQL server that the platform runs itself.

`programs.py` finds initdb and postgres, `account.py` the user that they run as, `layout.py` where the data is and what
is recorded of it, `configuration.py` writes the server's files, `postmaster.py` knows the process, and `server.py`
keeps one running.
"""

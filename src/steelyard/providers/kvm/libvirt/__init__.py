"""The one part of the provider that talks to libvirt.

`binding.py` finds libvirt's Python binding and keeps its event loop, `problems.py` makes few families of its errors,
`calls.py` runs each call in a thread with a deadline, `connection.py` opens the connection to one host and opens it
again. `domains.py`, `networks.py` and `folders.py` are what is called, each with types.
"""

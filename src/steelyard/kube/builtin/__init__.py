"""Kubernetes' own kinds, as tables: what discovery says of them, their schemas, their protobuf form.

The JSON files here are facts made by `tools/facts` from upstream's Go modules; nothing in this package is particular
to one server, so all servers of a process share what has been loaded.
"""

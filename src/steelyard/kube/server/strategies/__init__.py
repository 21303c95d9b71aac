"""What the server does to objects of a built-in kind beyond what its schema says: one strategy per kind.

`lookup.of(resource)` finds a kind's strategy; one that has none of its own gets the plain `Strategy`.
"""

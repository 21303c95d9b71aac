"""What the server does to objects beyond what their schema says: `metadata` for all, and one strategy per built-in
kind. `lookup.of(resource)` finds a kind's; one that has none of its own gets the plain `Strategy`.
"""

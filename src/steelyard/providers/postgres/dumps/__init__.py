"""Dumps on disk: `folder.py` says where they are and which are whole, `making.py` makes one. A database is filled from
one by `copies/`.
"""

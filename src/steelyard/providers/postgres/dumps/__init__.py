"""Dumps on disk: `folder.py` says where they are and which are whole, `making.py` makes one, `restoring.py` fills a
database from one.
"""

"""Crossplane's provider-sql: the definitions of its kinds for PostgreSQL, made by `tools/facts` from its Go module, so
that the embedded platform serves them. The kinds themselves are in `api/crossplane.py`.
"""

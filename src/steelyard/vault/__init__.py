"""Vault, or OpenBao, from the outside: `client.py` speaks to one, `keyvalue.py` knows its engine for secrets,
`paths.py` what may be asked for, and `errors.py` what an answer that is none means. It knows no object of the
platform's, so that the provider and the command line both use it.
"""

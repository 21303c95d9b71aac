"""DatabaseCopy: an empty database that is filled once. `target.py` is the database that is filled, `visitors.py` the
logins that fill it, `carrying.py` the ways in which data gets there, `filling.py` one attempt from beginning to end,
`plan.py` what comes next, `reconcile.py` has it done.
"""

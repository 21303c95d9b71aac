"""DatabaseUsage: how full databases are. `plan.py` says what is worth telling, `looking.py` looks at a server, at all
its databases in one go, `reconcile.py` tells.
"""

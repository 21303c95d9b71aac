"""TemporaryLogin: logins that end by themselves. `plan.py` decides, `statements.py` has the SQL, `server.py` is what is
done with it, `secret.py` what is told to whoever uses the login, `reconcile.py` calls them in order.
"""

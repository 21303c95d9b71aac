"""The etcd members on a control plane's machines: who there is, how they are, and how one leaves before its machine.

`saying.py` has what etcd says as values, `leaving.py` and `health.py` decide (pure); `exchange.py`, `roads.py` and
`portforward.py` are the way to a member, `credentials.py` what is shown there, `hearing.py` asks all of them, and
`service.py` is what reconcilers call.
"""

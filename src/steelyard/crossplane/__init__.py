"""Claims on Crossplane: the composition function that it calls, and the package of what it is to know.

A request of Crossplane becomes a claim and what was observed (`composites.py`, `forms.py`), the claim's kind composes
as it does everywhere else (`composing.py`), and the outcome becomes an answer in Crossplane's words. Everything up to
there is pure; `protocol.py` reads and writes protobuf, and `serving.py` listens. `package/` writes the definitions.
"""

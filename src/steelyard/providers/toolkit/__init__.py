"""What every provider needs and no provider owns: `provider.py` describes one to the platform, `clusterapi.py` reads
Cluster API's objects, `reporting.py` writes back what became of an infrastructure object. Labels and annotations are in
`api/clusterapi/wellknown.py`; drafts, triggers, verdicts and conditions in `kube/runtime`.
"""

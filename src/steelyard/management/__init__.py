"""Parts of the platform beside somebody else's Kubernetes API: `steelyard controllers`, `steelyard provider kvm`.

`running.py` runs them, `preflight.py` looks first whether they can, `manifests/` writes what a cluster is to have for
it: definitions, policies, rights, and a Deployment.
"""

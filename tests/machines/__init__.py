"""`make e2e`: claims become virtual machines with Kubernetes running in them, on a host that is made for the run.

`barehost.py` is that host: libvirtd in namespaces of its own. `story.py` has the stages and remembers which are done;
`cluster.py` is the platform and the cluster as their users see them, `pods.py` what runs inside, `leftovers.py` what a
host has on it. `single.py`, `replicated.py` and `managed.py` are the stories. `brief.py` is one for every change: it
stops at the end of cloud-init, with the image of `smallimage.py` and the bootstrap data of `bootdata.py`.
`documented.py` types the commands of docs/kvm.md, with the images of `registry.py`.
"""

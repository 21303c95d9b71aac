"""Machines on plain KVM hosts: an infrastructure provider of Cluster API, on libvirt.

A KVMMachine is a domain with disks, a seed and an address; a KVMCluster a network; a KVMHost a libvirtd that both are
on. `libvirt/` is the only part that talks to one. What is to be done is decided without it, from a spec and from what
was seen of the host, in modules without effects; the reconcilers write down what they are about to make, make it, and
report.
"""

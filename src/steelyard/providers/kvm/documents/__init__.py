"""libvirt's XML: `domains.py`, `networks.py` and `storage.py` make what is to be defined and read what was. Pure."""

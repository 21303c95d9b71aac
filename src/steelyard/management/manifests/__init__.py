"""What a management cluster is to have before parts of the platform run there, as files: `steelyard manifests`.

    crds/                 the definitions of the kinds, with the labels by which clusterctl finds them
    policies.yaml         what guards claims when they are written
    rights.yaml           an account, and what it may do: what the parts need (`parts.needed`) and nothing more
    controllers.yaml      the program itself, and the settings that it runs with
    monitoring/           a ServiceMonitor, for clusters that have Prometheus' operator
    standing/             what the platform file says of KVM hosts and of Vault, where it does
    chart/                the same as a Helm chart

`content.py` has the objects, `kustomize.py` and `chart.py` arrange them, `writing.py` puts them onto the disk. Pure but
for the last.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.management.manifests import chart, kustomize
from steelyard.management.manifests.content import AsYaml
from steelyard.management.manifests.content import Install as Install


def files(install: Install, as_yaml: AsYaml) -> Mapping[str, str]:
    """The text of each file, by its path."""
    made = chart.files(install, as_yaml)
    return {**kustomize.files(install, as_yaml), **{f"{chart.FOLDER}/{name}": text for name, text in made.items()}}

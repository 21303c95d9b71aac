"""The CustomResourceDefinitions of the Cluster API kinds that embedded mode serves.

Each is complete: names, scope, the one version v1beta2, its schema, subresources and printer columns, and the labels by
which Cluster API finds out which contract a kind speaks. Read from the tables on first use.
"""

from functools import cache
from pathlib import Path
from typing import Final

import orjson

from steelyard.api.clusterapi import resources, wellknown
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_FOLDER: Final = Path(__file__).parent


@cache
def crd(resource: Resource) -> Object:
    """Shared: copy before changing it."""
    definition: Object = orjson.loads((_FOLDER / f"{resource.plural}.json").read_bytes())
    # clusterctl gives it to what it installs; with it, it moves the objects of definitions that it has not installed.
    definition["metadata"]["labels"][wellknown.CLUSTERCTL_LABEL] = ""
    return definition


def crds() -> list[Object]:
    """One definition per kind, in the order of `resources.ALL`."""
    return [crd(resource) for resource in resources.ALL]

"""Which clusters a set selects and which sets a cluster or a source concerns, from the shared caches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS, CLUSTER_RESOURCE_SETS, CLUSTERS
from steelyard.kube import errors, objects, selectors
from steelyard.kube.objects import Object
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key

_BY_SOURCE: Final = "lifecycle-source"


class Selection:
    def __init__(self, informers: Informers) -> None:
        self.sets = informers.of(CLUSTER_RESOURCE_SETS)
        self.bindings = informers.of(CLUSTER_RESOURCE_SET_BINDINGS)
        self.clusters = informers.of(CLUSTERS)
        self.sets.add_index(_BY_SOURCE, _sources)

    def clusters_of(self, set_: Object) -> list[Object]:
        """Those of the set's namespace that match and are not on their way out."""
        here = objects.by_name(self.clusters.list(objects.namespace(set_)))
        return [each for each in here if _selects(set_, each) and not objects.is_being_deleted(each)]

    def to_sets(self, cluster: Object) -> Iterable[Key]:
        here = self.sets.list(objects.namespace(cluster))
        return [Key.of(each) for each in here if _selects(each, cluster)]

    def to_sets_naming(self, source: Object) -> Iterable[Key]:
        value = _source(objects.namespace(source), source.get("kind"), objects.name(source))
        return [Key.of(each) for each in self.sets.by_index(_BY_SOURCE, value)]


def _selects(set_: Object, cluster: Object) -> bool:
    """An empty selector selects nothing, as upstream has it."""
    try:
        selector = selectors.from_object(objects.mapping(objects.at(set_, "spec", "clusterSelector")))
    except errors.BadRequest:
        return False
    return bool(selector) and selector.matches(objects.labels(cluster))


def _sources(set_: Object) -> Iterable[str]:
    for named in map(objects.mapping, objects.sequence(objects.at(set_, "spec", "resources"))):
        yield _source(objects.namespace(set_), named.get("kind"), named.get("name"))


def _source(namespace: str, kind: object, name: object) -> str:
    return f"{namespace}/{kind}/{name}"

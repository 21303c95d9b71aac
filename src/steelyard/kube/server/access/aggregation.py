"""ClusterRoles that gather the rules of others: `admin`, `edit`, `view`, and whatever people define that way.

The gathered rules are written to the role itself, as upstream's controller does and under its name, whenever a
ClusterRole comes, changes or goes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson

from steelyard.kube import objects, selectors
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.apply import apply
from steelyard.kube.server.core import Core
from steelyard.kube.server.rights.policy import GROUP
from steelyard.kube.server.space.background import Work
from steelyard.kube.store.record import Change, Record

CLUSTER_ROLES: Final = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
MANAGER: Final = "clusterrole-aggregation-controller"
_AGGREGATES: Final = b'"aggregationRule":{'
_MOST_BYTES: Final = 256 * 1024
"""Of gathered rules: some thousands. To write them takes time of everybody's, whenever one of the roles changes."""

_log = logging.getLogger(__name__)


class TooMany(Exception):
    """More rules are selected than one role may have."""


class Aggregation(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._prefix = core.prefix(CLUSTER_ROLES)
        self._aggregated: set[str] = set()
        self._labels: dict[str, Mapping[str, str]] = {}
        """Of every ClusterRole. A role may be large: only those that are selected are read again."""

    def load(self, records: Iterable[Record]) -> None:
        self._aggregated.clear()
        self._labels.clear()
        for record in self._core.store.scan(self._prefix):
            self._put(record)

    def observe(self, change: Change) -> None:
        if not change.key.startswith(self._prefix):
            return
        if change.record is not None:
            self._put(change.record)
        else:
            self._aggregated.discard(change.key)
            self._labels.pop(change.key, None)
        for key in self._aggregated:
            self.enqueue(key)

    def _put(self, record: Record) -> None:
        self._labels[record.key] = objects.labels(record.object)
        if _AGGREGATES in record.value:
            self._aggregated.add(record.key)
            self.enqueue(record.key)
        else:
            self._aggregated.discard(record.key)

    def process(self, item: str) -> None:
        record = self._core.store.head(item)
        if record is None or not record.object.get("aggregationRule") or objects.is_being_deleted(record.object):
            return
        try:
            others = (key for key in selected(record.object, self._labels) if key != item)
            rules = gathered(self._read(others))
        except TooMany:
            _log.warning("cluster role gathers too many rules, and stays as it is", extra={"key": item})
            return
        if rules == objects.sequence(record.object.get("rules")):
            return
        changed = with_rules(record.object, rules, self._core.timestamp())
        if objects.mapping(changed).get("rules") == record.object.get("rules"):
            return
        self.write(self._core.put(record.key, changed, expect=record.revision), item)

    def _read(self, keys: Iterable[str]) -> Iterator[Object]:
        for key in keys:
            found = self._core.store.head(key)
            if found is not None:
                yield found.object


def selected(role: Object, labels: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Which of the roles with these labels it selects, in the order of their names."""
    for selector in objects.sequence(objects.at(role, "aggregationRule", "clusterRoleSelectors")):
        wanted = selectors.from_object(objects.mapping(selector))
        yield from (name for name in sorted(labels) if wanted.matches(labels[name]))


def gathered(roles: Iterable[Object]) -> list[Object]:
    """Their rules, each once. Raises TooMany."""
    found: dict[bytes, Object] = {}
    size = 0
    for rule in (objects.mapping(rule) for role in roles for rule in objects.sequence(role.get("rules"))):
        text = orjson.dumps(rule, option=orjson.OPT_SORT_KEYS)
        if text not in found:
            found[text] = rule
            size += len(text)
            if size > _MOST_BYTES:
                raise TooMany
    return list(found.values())


def with_rules(role: Object, rules: list[Object], timestamp: str) -> Object:
    """The role as a forced apply of these rules leaves it: where there are none, none are applied, so that rules which
    somebody else wrote stay.
    """
    schema = tables.schema(CLUSTER_ROLES.group, CLUSTER_ROLES.version, CLUSTER_ROLES.kind)
    applied: Object = {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": CLUSTER_ROLES.kind,
        "metadata": {"name": objects.name(role)},
    }
    if rules:
        applied["rules"] = rules
    merged = apply.apply(
        schema,
        role,
        applied,
        manager=MANAGER,
        force=True,
        api_version=CLUSTER_ROLES.api_version,
        now=timestamp,
        subresource="",
        ignored=apply.reset_fields("", has_status=False),
    )
    return objects.copy({**merged, "rules": merged.get("rules")})

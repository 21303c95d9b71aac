"""New objects that are nothing but a name and texts, made in one go.

Most ConfigMaps are: a name, perhaps labels and annotations, and a map of texts. For such an object most stages of a
create find nothing to do: nothing is unknown, empty or to be defaulted, no type is wrong, nobody owns it. One look
tells that, with comparisons of whole sets of names instead of a walk for each stage, and the result is what the stages
(`candidates.decode`, `completing.new`) would have made of it, byte for byte. Whatever is not as plain as that, every
mistake included, is left to the stages, which alone know what to say about it.
"""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from steelyard.kube import namerules, objectmeta, uids
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import strictness
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.call import Call, Payload
from steelyard.kube.server.candidates import completing
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.strategies import metadata

_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "data"})
_METADATA: Final = frozenset({"name", "namespace", "labels", "annotations"})
_MAPS: Final = {"labels": objectmeta.validate_labels, "annotations": objectmeta.validate_annotations}
_TEXTS: Final = {str}
_LONGEST_MANAGER: Final = 128


def new(served: Served, call: Call, wanted: WriteOptions, now: str) -> Object | None:
    """The object to store for a create of a kind that `holds_texts`; None if it is not plain."""
    if not call.is_light or not _is_name_and_texts(served, call.body):
        return None
    body = cast(Object, call.body)
    given: Object = body["metadata"]
    if given.get("namespace", call.namespace) != call.namespace or not _is_plain_manager(wanted.manager):
        return None
    if not _is_plainly_written(body, call.payload) or not _is_by_the_rules(served, body, given):
        return None
    meta: Object = {**given, "namespace": call.namespace, "uid": uids.new(), "creationTimestamp": now}
    for name in _MAPS:
        if name in given:
            meta[name] = {**given[name]}
    obj: Object = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": meta, "data": {**body["data"]}}
    return completing.track(served, None, obj, wanted, now)


def _is_name_and_texts(served: Served, body: Any) -> bool:
    if body.__class__ is not dict or body.keys() != _FIELDS:
        return False
    if body["kind"] != served.resource.kind or body["apiVersion"] != served.resource.api_version:
        return False
    meta = body["metadata"]
    if meta.__class__ is not dict or not meta.keys() <= _METADATA or meta.get("name").__class__ is not str:
        return False
    return _is_map_of_texts(body["data"]) and all(name not in meta or _is_map_of_texts(meta[name]) for name in _MAPS)


def _is_by_the_rules(served: Served, body: Object, meta: Object) -> bool:
    if metadata.name_rule(served.resource)(meta["name"]) or any(map(namerules.config_key, body["data"])):
        return False
    return not any(name in meta and problems(meta[name], name) for name, problems in _MAPS.items())


def _is_map_of_texts(value: Any) -> bool:
    """Not of an empty one, which would not be stored."""
    return value.__class__ is dict and set(map(type, value.values())) == _TEXTS


def _is_plainly_written(body: Any, payload: Payload | None) -> bool:
    """It is JSON, too short to break a bound on what it holds, and gives no field twice."""
    try:
        encoded = orjson.dumps(body)
    except TypeError:
        return False
    return len(encoded) <= budgets.LIGHT_BYTES and not strictness.is_repetitive(payload, encoded)


def _is_plain_manager(manager: str) -> bool:
    return manager.isascii() and len(manager) <= _LONGEST_MANAGER

"""What a Secret or ConfigMap brings into clusters: its texts, the hash by which a change is noticed, and the objects.

Texts are read as Kubernetes reads YAML, within the bounds of a request: whoever may write a Secret could otherwise keep
the platform busy with one. The hash is upstream's, so that whoever takes a cluster over sees what was applied.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import orjson

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.server.bodies import workers, yamlbodies
from steelyard.kube.server.bodies.syntax import Unreadable
from steelyard.kube.server.fairness import budgets

MAX_OBJECTS: Final = 1000
"""In one Secret or ConfigMap."""
_SEPARATOR: Final = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
_ORDER: Final = (
    "Namespace",
    "CustomResourceDefinition",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Secret",
    "ConfigMap",
    "ServiceAccount",
    "LimitRange",
    "Pod",
    "ReplicaSet",
    "Endpoint",
)
"""Kinds that go before all others, as upstream sorts them."""
_LIST: Final = ("v1", "List")


class Unusable(Exception):
    """What a Secret or ConfigMap holds cannot be applied; the message says why."""


def texts(source: Object) -> list[bytes]:
    """In the order of their keys."""
    data = objects.mapping(source.get("data"))
    if not data:
        raise Unusable("it has no data; put manifests into it, in YAML or JSON")
    if source.get("kind") != SECRETS.kind:
        return [str(data[key]).encode() for key in sorted(data)]
    try:
        return [base64.b64decode(str(data[key])) for key in sorted(data)]
    except binascii.Error as error:
        raise Unusable(f"its data cannot be decoded: {error}") from error


def digest(found: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for text in found:
        made.update(text)
    return f"sha256:{made.hexdigest()}"


async def read(found: Iterable[bytes], flow: str) -> list[Object]:
    """The objects of all texts, those of each in the order in which they can be created. Raises Unusable.

    Whoever reads much takes turns with others, by `flow`.
    """
    made: list[Object] = []
    for text in found:
        try:
            values = await _values(text, flow)
        except Unreadable as error:
            raise Unusable(f"it cannot be read: {error}") from error
        except errors.ApiError as error:
            raise Unusable(f"it cannot be read: {error.message}") from error
        made += sorted((obj for value in values for obj in _flat(value)), key=_rank)
        _check_count(made)
    return made


async def _values(text: bytes, flow: str) -> list[Any]:
    if len(text) > budgets.MAX_BODY_BYTES:
        raise Unusable(f"it is larger than {budgets.MAX_BODY_BYTES} bytes")
    if text.lstrip()[:1] in (b"[", b"{"):
        budgets.check_values(text)
        # What is no JSON, and begins alike, is YAML in flow style or several documents.
        with contextlib.suppress(orjson.JSONDecodeError):
            return _listed(orjson.loads(text))
    documents = [part for part in _SEPARATOR.split(text) if part.strip()]
    _check_count(documents)
    return [value for document in documents for value in _listed(await _yaml(document, flow))]


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


async def _yaml(text: bytes, flow: str) -> Any:
    if len(text) <= budgets.LIGHT_YAML_BYTES:
        return yamlbodies.load(text)[0]
    return orjson.loads((await workers.SHARED.read_yaml(text, flow))[0])


def _check_count(found: Sequence[object]) -> None:
    if len(found) > MAX_OBJECTS:
        raise Unusable(f"it has more than {MAX_OBJECTS} objects; spread them over several")


def _flat(value: Any) -> list[Object]:
    """An object as it is, those of a List, and nothing of an empty document."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise Unusable("it holds what is no object; each document must have apiVersion, kind and metadata")
    obj = cast(Object, value)
    if (obj.get("apiVersion"), obj.get("kind")) == _LIST:
        return [each for item in objects.sequence(obj.get("items")) for each in _flat(item)]
    lacking = [field for field in ("apiVersion", "kind") if not objects.text(obj, field)]
    if not objects.text(objects.metadata(obj), "name"):
        lacking.append("metadata.name")
    if lacking:
        called = f"{obj.get('kind') or 'an object'} {objects.name(obj)}".strip()
        raise Unusable(f"{called} in it has no {', '.join(lacking)}")
    return [obj]


def _rank(obj: Object) -> int:
    kind = str(obj.get("kind"))
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)

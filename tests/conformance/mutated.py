"""The corpus with one thing changed in each sequence: a field or an option that nobody thought of.

The changed request comes before the one it was made from, so that what it meets is there and what follows still means
something. Requests that two servers answer alike only by chance are left as they are: deletions of what is then deleted
again, waiting for a state, text that is no object. The same seed makes the same changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final, cast

from tests.conformance import corpus
from tests.conformance.corpus import Sequence

_LEFT_OUT: Final = ("auth", "discovery", "health", "namespaces", "openapi", "policies", "webhooks")
"""Where much depends on when a request comes, or on things outside the request."""
_OPTIONS: Final = (
    "dryRun=All", "dryRun=x", "fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=x", "fieldManager=z",
    "force=true", "force=x", "pretty=true", "limit=1", "limit=x", "limit=-1", "continue=x", "resourceVersion=0",
    "resourceVersionMatch=Exact", "resourceVersionMatch=x", "labelSelector=a%3Db", "labelSelector=a+in+(",
    "fieldSelector=metadata.name%3Da", "fieldSelector=x%3Dy", "gracePeriodSeconds=0", "gracePeriodSeconds=x",
    "propagationPolicy=x", "orphanDependents=x", "timeoutSeconds=x", "watch=x", "sendInitialEvents=true",
    "allowWatchBookmarks=x", "unknown=1",
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 1.5, 2**31, 2**53 + 1, "", "a", "A", "1", "true", " ", "a/b", "a b", "..", "x" * 64,
    "x" * 254, "500m", "1Gi", "25%", "2024-02-30T00:00:00Z", "2024-02-03T00:00:00Z", "1.2.3.4", "::1", "YQ==", "!!",
    "v1", "é", "-", "[", [], {}, [None], [[]], [{}], {"a": None}, [1], {"a": "b"}, ["a", "a"],
    [{"name": "a"}, {"name": "a"}],
)  # fmt: skip
_KEYS: Final = (
    "a", "metadata", "spec", "status", "name", "kind", "apiVersion", "finalizers", "ownerReferences", "managedFields",
    "labels", "annotations", "uid", "resourceVersion", "generateName", "namespace", "deletionTimestamp", "generation",
    "data", "binaryData", "stringData", "type", "items", "default", "immutable", "replicas", "selector", "ports",
)  # fmt: skip


def sequences(seed: int, count: int) -> Iterator[Sequence]:
    usable = [each for each in corpus.load() if each.bullet not in _LEFT_OUT and _places(each)]
    for number in range(count):
        random = Random(f"{seed}/{number}")
        sequence = random.choice(usable)
        place = random.choice(_places(sequence))
        step = _changed(random, sequence.steps[place])
        steps = (*sequence.steps[:place], step, *sequence.steps[place:])
        shown = f"step {place + 1} is {step['do']} {step.get('body', '')}"
        yield replace(sequence, name=f"m{number} {sequence.name}", steps=steps, source=f"{sequence.source}, {shown}")


def _places(sequence: Sequence) -> list[int]:
    return [
        number
        for number, step in enumerate(sequence.steps)
        if "do" in step and "raw" not in step and "until" not in step and not str(step["do"]).startswith("DELETE")
    ]


def _changed(random: Random, step: Mapping[str, Any]) -> dict[str, Any]:
    changed = {key: copy.deepcopy(value) for key, value in step.items() if key != "save"}
    if isinstance(changed.get("body"), dict) and changed["body"] and random.random() < 0.85:
        changed["body"] = _other(random, corpus.filled(changed["body"], {}))
    else:
        separator = "&" if "?" in changed["do"] else "?"
        changed["do"] += separator + random.choice(_OPTIONS)
    return changed


def _other(random: Random, body: Any) -> Any:
    """The body with one value changed, taken away, added, or put one level deeper."""
    value: Any = body
    while True:
        key: Any = random.choice(_keys(value))
        below: Any = value[key]
        if not _keys(below) or random.random() < 0.3:
            break
        value = below
    match random.randrange(6):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[random.choice(_KEYS)] = cast("dict[str, Any]", value).pop(key)
        case 2 if isinstance(value, dict):
            value[random.choice(_KEYS)] = random.choice(_VALUES)
        case 3:
            value[key] = [below]
        case 4:
            value[key] = {random.choice(_KEYS): below}
        case _:
            value[key] = random.choice(_VALUES)
    return body


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []

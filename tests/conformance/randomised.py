"""Random sequences: creates, updates, patches, applies and deletes of four kinds, the same for the same seed.

Values are drawn from few names and few values, so that requests meet each other's objects and fields: conflicts,
shared ownership and removals happen by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.conformance.corpus import Sequence

BULLET: Final = "random"
STEPS: Final = 14
_NAMES: Final = ("a", "b")
_WORDS: Final = ("one", "two", "three")
_MANAGERS: Final = ("alice", "bob")
_PATHS: Final = {"cm": "$CM", "secret": "$SEC", "dep": "$DEP", "widget": "$W"}


def sequences(seed: int, count: int) -> Iterator[Sequence]:
    for number in range(count):
        # A generator per sequence: the failing one can be had alone.
        random = Random(f"{seed}/{number}")
        kind = tuple(_PATHS)[number % len(_PATHS)]
        steps: list[dict[str, Any]] = [
            {"watch": "w", "path": f"{_PATHS[kind]}?watch=1&resourceVersion=0"},
            *(_step(random, kind) for _ in range(STEPS)),
            {"do": f"GET {_PATHS[kind]}"},
            {"drain": "w", "seconds": 1},
        ]
        yield Sequence(BULLET, f"{kind} {number} of seed {seed}", tuple(steps), source="random")


def _step(random: Random, kind: str) -> dict[str, Any]:
    name, manager = random.choice(_NAMES), random.choice(_MANAGERS)
    one = f"{_PATHS[kind]}/{name}"
    query = f"?fieldManager={manager}"
    match random.choice(
        ("create", "apply", "apply", "apply", "force", "merge", "merge", "update", "delete", "strategic")
    ):
        case "create":
            return {"do": f"POST {_PATHS[kind]}{query}", "body": _object(random, kind, name)}
        case "apply":
            return {"do": f"PATCH {one}{query}", "as": "apply", "body": _object(random, kind, name)}
        case "force":
            return {"do": f"PATCH {one}{query}&force=true", "as": "apply", "body": _object(random, kind, name)}
        case "update":
            return {"do": f"PUT {one}{query}", "body": _object(random, kind, name)}
        case "delete":
            return {"do": f"DELETE {one}"}
        case "strategic":
            return {"do": f"PATCH {one}{query}", "as": "strategic", "body": _content(random, kind)}
        case _:
            return {"do": f"PATCH {one}{query}", "as": "merge", "body": _content(random, kind)}


def _object(random: Random, kind: str, name: str) -> dict[str, Any]:
    content = _content(random, kind)
    metadata = {"name": name, **content.pop("metadata", {})}
    return {"$": kind, "metadata": metadata, **content}


def _content(random: Random, kind: str) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if random.random() < 0.4:
        content["metadata"] = {random.choice(("labels", "annotations")): _strings(random)}
    match kind:
        case "cm":
            content["data"] = _strings(random)
        case "secret":
            content["stringData"] = _strings(random)
        case "dep":
            content["spec"] = _deployment(random)
        case _:
            content["spec"] = _widget(random)
    return content


def _strings(random: Random) -> dict[str, str]:
    return {key: random.choice(_WORDS) for key in random.sample("xyz", random.randint(0, 3))}


def _deployment(random: Random) -> dict[str, Any]:
    containers = [
        {"name": name, "image": random.choice(_WORDS), "env": [{"name": random.choice("AB"), "value": "1"}]}
        for name in random.sample(("c", "d"), random.randint(1, 2))
    ]
    return {
        "replicas": random.randint(0, 3),
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}},
    }


def _widget(random: Random) -> dict[str, Any]:
    possible: dict[str, Any] = {
        "size": random.choice(("small", "large", "gigantic")),
        "replicas": random.randint(-1, 4),
        "tags": random.sample(_WORDS, random.randint(0, 3)),
        "args": [random.choice(_WORDS) for _ in range(random.randint(0, 2))],
        "selector": _strings(random),
        "options": _strings(random),
        "ports": [{"name": name, "port": random.randint(1, 3)} for name in random.sample("pq", random.randint(0, 2))],
    }
    return {key: possible[key] for key in random.sample(sorted(possible), 3)}

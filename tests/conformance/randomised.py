"""Random sequences: every verb on five kinds, valid and not, the same for the same seed.

Values are drawn from few names and few values, so that requests meet each other's objects and fields: shared ownership
and removals happen by themselves. Nothing is asked whose answer varies from one run of upstream to the next: a request
has one thing wrong with it, since several are told in any order; an apply takes fields over by force, since conflicts
with several managers are; and a sequence starts with a second of the clock, by which managers are sorted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, cast

from tests.conformance.corpus import Sequence

BULLET: Final = "random"
STEPS: Final = 16
_NAMES: Final = ("a", "b")
_WORDS: Final = ("one", "two", "three")
_MANAGERS: Final = ("alice", "bob")
_PATHS: Final = {
    "cm": "$CM",
    "secret": "$SEC",
    "dep": "$DEP",
    "widget": "$W",
    "role": "$RBAC/namespaces/$NS/roles",
}
_SCALED: Final = ("dep", "widget")
_ODD: Final[tuple[Any, ...]] = (7, "odd", True, ["x"], {"x": "y"})
_BROKEN: Final = ("", "{", "[]", "null", '"x"', '{"a":}', "3", '{"metadata":{"name":"a"}')

Step = dict[str, Any]


def sequences(seed: int, count: int) -> Iterator[Sequence]:
    for number in range(count):
        # A generator per sequence: the failing one can be had alone.
        random = Random(f"{seed}/{number}")
        kind = tuple(_PATHS)[number % len(_PATHS)]
        steps: list[Step] = [{"pause": "second"}, {"watch": "w", "path": f"{_PATHS[kind]}?watch=1&resourceVersion=0"}]
        while len(steps) < STEPS:
            steps += random.choices(_ACTIONS, _WEIGHTS)[0](random, kind)
        steps += [{"do": f"GET {_PATHS[kind]}"}, {"drain": "w", "seconds": 1}]
        yield Sequence(BULLET, f"{kind} {number} of seed {seed}", tuple(steps), source="random")


def _one(random: Random, kind: str) -> tuple[str, str, str]:
    """A name, the path of the object, and options of a write."""
    name = random.choice(_NAMES)
    options = [f"fieldManager={random.choice(_MANAGERS)}"]
    if random.random() < 0.15:
        options.append("dryRun=All")
    if random.random() < 0.3:
        options.append(f"fieldValidation={random.choice(('Strict', 'Ignore', 'Warn'))}")
    return name, f"{_PATHS[kind]}/{name}", "?" + "&".join(options)


def _create(random: Random, kind: str) -> list[Step]:
    name, _, query = _one(random, kind)
    return [{"do": f"POST {_PATHS[kind]}{query}", "body": _object(random, kind, name)}]


def _apply(random: Random, kind: str) -> list[Step]:
    name, path, query = _one(random, kind)
    body = _object(random, kind, name, is_valid=True)
    return [{"do": f"PATCH {path}{query}&force=true", "as": "apply", "body": body}]


def _merge(random: Random, kind: str) -> list[Step]:
    _, path, query = _one(random, kind)
    patch = _content(random, kind)
    if random.random() < 0.3:
        _, holder, key = random.choice(_places(patch)) if _places(patch) else ("", patch, "metadata")
        holder[key] = None
    return [{"do": f"PATCH {path}{query}", "as": "merge", "body": patch}]


def _strategic(random: Random, kind: str) -> list[Step]:
    _, path, query = _one(random, kind)
    return [{"do": f"PATCH {path}{query}", "as": "strategic", "body": _content(random, kind)}]


def _json_patch(random: Random, kind: str) -> list[Step]:
    _, path, query = _one(random, kind)
    return [{"do": f"PATCH {path}{query}", "as": "jsonpatch", "body": _operations(random, kind)}]


def _update(random: Random, kind: str) -> list[Step]:
    """With the version that was read before, without one, or with one that is no longer right."""
    name, path, query = _one(random, kind)
    obj = _object(random, kind, name)
    read = {"do": f"GET {path}", "save": {f"rv_{name}": "metadata.resourceVersion"}}
    version = random.choice((f"$rv_{name}", f"$rv_{name}", "", "1"))
    if version:
        obj["metadata"]["resourceVersion"] = version
    return [read, {"do": f"PUT {path}{query}", "body": obj}]


def _delete(random: Random, kind: str) -> list[Step]:
    name, path, _ = _one(random, kind)
    match random.choice(("plain", "plain", "dry", "uid", "other uid", "version")):
        case "dry":
            return [{"do": f"DELETE {path}?dryRun=All"}]
        case "uid":
            read = {"do": f"GET {path}", "save": {f"uid_{name}": "metadata.uid"}}
            return [read, {"do": f"DELETE {path}", "body": {"preconditions": {"uid": f"$uid_{name}"}}}]
        case "other uid":
            return [
                {"do": f"DELETE {path}", "body": {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}}
            ]
        case "version":
            return [{"do": f"DELETE {path}", "body": {"preconditions": {"resourceVersion": "1"}}}]
        case _:
            return [{"do": f"DELETE {path}"}]


def _delete_some(random: Random, kind: str) -> list[Step]:
    return [{"do": f"DELETE {_PATHS[kind]}?labelSelector={random.choice('xyz')}={random.choice(_WORDS)}"}]


def _read(random: Random, kind: str) -> list[Step]:
    key, word = random.choice("xyz"), random.choice(_WORDS)
    queries = [
        "",
        f"?labelSelector={key}={word}",
        f"?labelSelector={key}+notin+({word})",
        f"?labelSelector=!{key}",
        "?fieldSelector=metadata.name=a",
        "?fieldSelector=metadata.name!=a",
        "?fieldSelector=spec.nonsense=a",
        "?labelSelector=a=b=c",
    ]
    if kind == "widget":
        queries.append("?fieldSelector=spec.size=large")
    return [{"do": f"GET {_PATHS[kind]}{random.choice(queries)}"}]


def _scale(random: Random, kind: str) -> list[Step]:
    if kind not in _SCALED:
        return _merge(random, kind)
    _, path, query = _one(random, kind)
    match random.choice(("get", "merge", "merge", "json")):
        case "get":
            return [{"do": f"GET {path}/scale"}]
        case "json":
            body: Any = [{"op": "replace", "path": "/spec/replicas", "value": random.randint(0, 4)}]
            return [{"do": f"PATCH {path}/scale{query}", "as": "jsonpatch", "body": body}]
        case _:
            replicas = random.choice((0, 1, 2, 3, -1, "x"))
            return [{"do": f"PATCH {path}/scale{query}", "as": "merge", "body": {"spec": {"replicas": replicas}}}]


def _status(random: Random, kind: str) -> list[Step]:
    if kind not in _SCALED:
        return _strategic(random, kind)
    _, path, query = _one(random, kind)
    status: Any = {"replicas": random.randint(0, 3)}
    if kind == "widget":
        status["phase"] = random.choice(_WORDS)
    body = {"status": status, **({"spec": {"replicas": 9}} if random.random() < 0.3 else {})}
    return [{"do": f"PATCH {path}/status{query}", "as": "merge", "body": body}, {"do": f"GET {path}"}]


def _spoiled(random: Random, kind: str) -> list[Step]:
    """One value of another type than it should have, or a field that is not there."""
    name, path, query = _one(random, kind)
    verb = random.choice(("POST", "PUT", "merge", "strategic"))
    body = (
        _object(random, kind, name, is_valid=True) if verb in ("POST", "PUT") else _content(random, kind, is_valid=True)
    )
    places = _places(body)
    if places and random.random() < 0.7:
        value, holder, key = random.choice(places)
        holder[key] = copy.deepcopy(random.choice([odd for odd in _ODD if type(odd) is not type(value)]))
    else:
        body[random.choice(("nonsense", "datum"))] = random.choice(_ODD)
    match verb:
        case "POST":
            return [{"do": f"POST {_PATHS[kind]}{query}", "body": body}]
        case "PUT":
            return [{"do": f"PUT {path}{query}", "body": body}]
        case _:
            return [{"do": f"PATCH {path}{query}", "as": verb, "body": body}]


def _broken(random: Random, kind: str) -> list[Step]:
    """A body that is no object or patch at all."""
    _, path, query = _one(random, kind)
    raw = random.choice(_BROKEN)
    match random.choice(("POST", "PUT", "merge", "jsonpatch", "strategic")):
        case "POST":
            return [{"do": f"POST {_PATHS[kind]}{query}", "raw": raw}]
        case "PUT":
            return [{"do": f"PUT {path}{query}", "raw": raw}]
        case form:
            return [{"do": f"PATCH {path}{query}", "as": form, "raw": raw}]


_ACTIONS: Final[list[Callable[[Random, str], list[Step]]]] = [
    _create, _apply, _merge, _strategic, _json_patch, _update, _delete, _delete_some, _read, _scale, _status, _spoiled,
    _broken,
]  # fmt: skip
_WEIGHTS: Final = (3, 6, 4, 3, 3, 3, 2, 1, 3, 2, 2, 3, 1)


def _places(value: Any) -> list[tuple[Any, Any, Any]]:
    """Every value of an object, with the object or list that holds it and its key there; not what says what it is."""
    holder: Any = value
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = [key for key in cast("dict[str, Any]", value) if key not in ("$", "app", "name")]
    elif isinstance(value, list):
        keys = list(range(len(cast("list[Any]", value))))
    found: list[tuple[Any, Any, Any]] = []
    for key in keys:
        found.append((holder[key], holder, key))
        found += _places(holder[key])
    return found


def _operations(random: Random, kind: str) -> list[dict[str, Any]]:
    root = {"cm": "/data", "secret": "/data", "dep": "/spec", "widget": "/spec", "role": "/rules"}[kind]
    key = random.choice("xyz")
    word: Any = "b25l" if kind == "secret" else random.choice(_WORDS)
    possible: list[dict[str, Any]] = [
        {"op": "add", "path": f"/metadata/labels/{key}", "value": word},
        {"op": "add", "path": "/metadata/labels", "value": {key: "one"}},
        {"op": "remove", "path": f"/metadata/labels/{key}"},
        {"op": "replace", "path": "/metadata/annotations", "value": {key: "two"}},
        {"op": "test", "path": "/metadata/name", "value": random.choice(_NAMES)},
        {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations"},
        {"op": "remove", "path": f"{root}/{random.choice(('x', 'none', '0'))}"},
        {"op": "move", "from": f"/metadata/labels/{key}", "path": f"/metadata/annotations/{key}"},
        {"op": random.choice(("frob", "add")), "path": "/metadata/nonsense", "value": 1},
    ]
    if kind in ("cm", "secret"):
        possible.append({"op": "add", "path": f"{root}/{key}", "value": word})
    if kind in _SCALED:
        possible.append({"op": "replace", "path": "/spec/replicas", "value": random.randint(0, 3)})
    return random.sample(possible, random.randint(1, 2))


def _object(random: Random, kind: str, name: str, *, is_valid: bool = False) -> dict[str, Any]:
    content = _content(random, kind, is_valid=is_valid)
    metadata = {"name": name, **content.pop("metadata", {})}
    return {"$": kind, "metadata": metadata, **content}


def _content(random: Random, kind: str, *, is_valid: bool = False) -> dict[str, Any]:
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
        case "role":
            content["rules"] = _rules(random)
        case _:
            content["spec"] = _widget(random, is_valid=is_valid)
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


def _rules(random: Random) -> list[dict[str, Any]]:
    return [
        {
            "apiGroups": [""],
            "resources": [random.choice(("pods", "secrets"))],
            "verbs": ["get", "list"][: random.randint(1, 2)],
        }
        for _ in range(random.randint(1, 2))
    ]


def _widget(random: Random, *, is_valid: bool) -> dict[str, Any]:
    possible: dict[str, Any] = {
        "size": random.choice(("small", "large")),
        "replicas": random.randint(0, 4),
        "tags": random.sample(_WORDS, random.randint(0, 3)),
        "args": [random.choice(_WORDS) for _ in range(random.randint(0, 2))],
        "selector": _strings(random),
        "options": _strings(random),
        "ports": [{"name": name, "port": random.randint(1, 3)} for name in random.sample("pq", random.randint(0, 2))],
    }
    if not is_valid and random.random() < 0.2:
        possible |= random.choice(({"size": "gigantic"}, {"replicas": -1}, {"replicas": 101}))
    return {key: possible[key] for key in random.sample(sorted(possible), 3)}

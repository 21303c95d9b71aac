"""A kubeconfig that came from elsewhere (a Secret, a request): what it may say, read for whoever relies on it.

Whoever may write such a text could make its reader run a program, send a file to a server of theirs, or believe a
server unseen. So only what is inside of it counts, and anything that points out of it is refused, in every entry, also
in one that no context uses. Nothing here touches a file; `kube/client/kubeconfig.py` makes connections of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import orjson

from steelyard.kube import objects, plainyaml
from steelyard.kube.objects import Object

MAX_BYTES: Final = 128 << 10
"""Twenty times what one cluster and its certificates take."""
UNSUPPORTED: Final = ("exec", "auth-provider", "username", "as")
"""Ways to authenticate that Steelyard does not know."""
_A_FILE: Final = "names a file: only a kubeconfig that is a file itself may; put the content inside"
_A_PROGRAM: Final = "is not supported: use a client certificate or a token"
_REFUSED: Final[Sequence[tuple[str, str, Mapping[str, str]]]] = (
    (
        "clusters",
        "cluster",
        {
            "certificate-authority": _A_FILE,
            "insecure-skip-tls-verify": "is not allowed: give the server's authority as certificate-authority-data",
            "proxy-url": "is not allowed: the server must be reachable directly",
        },
    ),
    (
        "users",
        "user",
        {
            "client-certificate": _A_FILE,
            "client-key": _A_FILE,
            "tokenFile": _A_FILE,
            **dict.fromkeys(UNSUPPORTED, _A_PROGRAM),
        },
    ),
)


class InvalidKubeconfig(ValueError):
    """It is no kubeconfig, is incomplete, or asks for something that Steelyard cannot or will not do."""


def document(source: str | bytes) -> Object:
    """The kubeconfig as a value. Raises InvalidKubeconfig."""
    if len(source) > MAX_BYTES:
        raise InvalidKubeconfig(f"the kubeconfig is larger than {MAX_BYTES} bytes")
    try:
        found: Any = orjson.loads(source) if source.lstrip()[:1] in ("{", b"{") else plainyaml.load(source)
    except ValueError as error:
        raise InvalidKubeconfig(f"the kubeconfig is not valid YAML: {error}") from error
    made = mapping(found)
    check(made)
    return made


def check(config: Object) -> None:
    """Raises InvalidKubeconfig for what points out of it."""
    for plural, singular, refused in _REFUSED:
        for name, entry in named(config, plural, singular):
            if key := next((key for key in refused if entry.get(key)), ""):
                raise InvalidKubeconfig(f'{singular} "{name}" has {key}, which {refused[key]}')


def servers(config: Object) -> Iterator[str]:
    """Every address that it names."""
    for _, entry in named(config, "clusters", "cluster"):
        yield str(entry.get("server") or "").rstrip("/")


def mapping(found: Any) -> Object:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidKubeconfig("the kubeconfig is not a mapping")
    return cast(Object, found)


def named(config: Object, plural: str, singular: str) -> list[tuple[str, Object]]:
    """The entries of a list by their names; of two with the same name the first counts."""
    found: dict[str, Object] = {}
    for entry in map(objects.mapping, objects.sequence(config.get(plural))):
        name = entry.get("name")
        if not isinstance(name, str):
            raise InvalidKubeconfig(f"an entry of {plural} has no name")
        found.setdefault(name, objects.mapping(entry.get(singular)))
    return list(found.items())

"""What becomes of servers in virtual machines when they are composed otherwise than before: other sizes restart them.

None is ever replaced: what would take new ones is refused. So no change of a claim loses what is in its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.api.k3s import VIRTUAL_MACHINES
from steelyard.compose.cluster import watching
from steelyard.compose.effects import Disruption, Effect, Parts, Required
from steelyard.kube import objects
from steelyard.kube.objects import Object

_SIZES: Final = {"cores": ("cpu", "cores"), "memory": ("memory", "guest")}


def of(before: Parts, after: Parts, required: Required) -> Sequence[Effect]:
    return [*watching.effects_of(before, after, required), *_restarts(before, after)]


def _restarts(before: Parts, after: Parts) -> Iterator[Effect]:
    servers = [name for name, obj in after.items() if obj.get("kind") == VIRTUAL_MACHINES.kind]
    is_alone = len(servers) == 1
    for name in servers:
        old, new = before.get(name), after[name]
        if old is None or not (reason := _reason(old, new)):
            continue
        how = "it is restarted, and the API is away meanwhile" if is_alone else "it is restarted, one after the other"
        disruption = Disruption.RECREATE if is_alone else Disruption.ROLLING
        yield Effect(disruption, f"server {objects.name(new)}", f"{how}: {reason}", name)


def _reason(old: Object, new: Object) -> str:
    """`memory 32Gi -> 64Gi`; empty where the server goes on as it is."""
    changed: list[str] = []
    for word, path in _SIZES.items():
        one, other = (objects.at(each, "spec", "template", "spec", "domain", *path) for each in (old, new))
        if one != other:
            changed.append(f"{word} {one} -> {other}")
    return ", ".join(changed)

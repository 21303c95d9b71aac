"""What becomes of servers in virtual machines when they are composed otherwise than before.

None is ever replaced: what would take new ones is refused. So their data is never lost by a change of a claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steelyard.api.k3s import VIRTUAL_MACHINES
from steelyard.compose.cluster import watching
from steelyard.compose.composed import Composed
from steelyard.kube import objects
from steelyard.kube.objects import Object


def of(before: Composed, after: Composed, required: Mapping[str, Sequence[Object]]) -> list[str]:
    """`restarts 1 server: dev-server-0; the API is away meanwhile`"""
    restarted = [
        objects.name(part.object)
        for name, part in after.desired.items()
        if part.resource == VIRTUAL_MACHINES and name in before.desired and _guest(before, name) != _guest(after, name)
    ]
    found = list(watching.effects_of(before, after, required))
    if restarted:
        count = "1 server" if len(restarted) == 1 else f"{len(restarted)} servers, one by one"
        away = "; the API is away meanwhile" if len(restarted) == 1 else ""
        found.append(f"restarts {count}: {', '.join(restarted)}{away}")
    return found


def _guest(composed: Composed, name: str) -> object:
    return objects.at(composed.desired[name].object, "spec", "template", "spec")

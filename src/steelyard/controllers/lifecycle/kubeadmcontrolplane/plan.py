"""What to do next about a control plane's machines: one step at a time, and none while a machine is not well. Pure.

| machines                 | step                                                                    |
|--------------------------|-------------------------------------------------------------------------|
| none                     | create the first                                                        |
| one is going             | wait for it                                                             |
| outdated, surge unused   | add one                                                                 |
| outdated, surge used     | remove an outdated one                                                  |
| fewer than wanted        | add one                                                                 |
| more than wanted         | remove one: marked for deletion first, then unhealthy, then the oldest  |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from steelyard.frozen import frozen

Action = Literal["nothing", "initialize", "add", "remove"]


@frozen
class Member:
    """One control-plane machine, as far as the decision needs to know it."""

    name: str
    created: str = ""
    is_going: bool = False
    has_node: bool = True
    problems: tuple[str, ...] = ()
    """What its components report as wrong or unknown."""
    is_outdated: bool = False
    is_marked: bool = False
    """Whether somebody asked for it to be the next to go."""
    failure_domain: str = ""

    @property
    def is_well(self) -> bool:
        return self.has_node and not self.problems


@frozen
class Step:
    action: Action
    machine: str = ""
    """Which one to remove."""
    failure_domain: str = ""
    """Where to put a new one."""
    blocked_by: tuple[str, ...] = ()
    """Why the action has to wait; nothing is done while there is a reason."""


def next_step(
    members: Sequence[Member], replicas: int, *, max_surge: int = 1, failure_domains: Sequence[str] = ()
) -> Step:
    outdated = [member for member in members if member.is_outdated]
    count = len(members)
    if not members:
        return Step("initialize", failure_domain=_emptiest(members, failure_domains)) if replicas else Step("nothing")
    if outdated:
        adds = count < replicas + max_surge
    elif count != replicas:
        adds = count < replicas
    else:
        return Step("nothing")
    if adds:
        blocked = _blocked(members)
        return Step("add", failure_domain=_emptiest(members, failure_domains), blocked_by=blocked)
    chosen = _next_to_go(members, outdated)
    return Step("remove", machine=chosen.name, blocked_by=_blocked(members, leaving_out=chosen))


def _blocked(members: Sequence[Member], *, leaving_out: Member | None = None) -> tuple[str, ...]:
    going = [member.name for member in members if member.is_going]
    if going:
        return (f"waiting for Machine {', '.join(going)} to be deleted",)
    reasons: list[str] = []
    for member in members:
        if leaving_out is not None and member.name == leaving_out.name:
            continue
        if not member.has_node:
            reasons.append(f"Machine {member.name} does not have a corresponding Node yet")
        reasons.extend(f"Machine {member.name}: {problem}" for problem in member.problems)
    return tuple(reasons)


def _next_to_go(members: Sequence[Member], outdated: Sequence[Member]) -> Member:
    candidates: Sequence[Member] = members
    for preferred in (
        [member for member in outdated if member.is_marked],
        [member for member in members if member.is_marked],
        [member for member in outdated if not member.is_well],
        outdated,
    ):
        if preferred:
            candidates = preferred
            break
    crowds = Counter(member.failure_domain for member in members)
    most = max(crowds[member.failure_domain] for member in candidates)
    crowded = [member for member in candidates if crowds[member.failure_domain] == most]
    return min(crowded, key=lambda member: (member.created, member.name))


def _emptiest(members: Sequence[Member], failure_domains: Sequence[str]) -> str:
    if not failure_domains:
        return ""
    crowds = Counter(member.failure_domain for member in members if not member.is_going)
    return min(failure_domains, key=lambda domain: (crowds[domain], domain))

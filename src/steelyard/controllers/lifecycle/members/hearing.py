"""What the members on a control plane's machines say, each asked itself and all at once; and what follows of it.

Each is tried straight, and through the API server where that leads nowhere and the cluster's API shows that there is
etcd. A cluster of whose machines none is reached straight is remembered for a while, and gone around to at once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.machine.drain import PODS
from steelyard.controllers.lifecycle.members import roads
from steelyard.controllers.lifecycle.members.exchange import Conversation, Refused, Unreachable
from steelyard.controllers.lifecycle.members.leaving import Host
from steelyard.controllers.lifecycle.members.roads import Road
from steelyard.controllers.lifecycle.members.saying import Etcd, Member, Status
from steelyard.controllers.lifecycle.workload import Connection
from steelyard.frozen import frozen
from steelyard.kube import errors

SECONDS: Final = 15.0
_POD_SELECTOR: Final = f"component=etcd,tier=control-plane,{wellknown.ETCD_LABEL}!={wellknown.UNASKED}"


@frozen
class Heard:
    """What one machine's member said, and the road by which it was reached."""

    host: Host
    road: Road
    status: Status
    members: tuple[Member, ...]
    alarms: Mapping[int, tuple[str, ...]]


_Answers: TypeAlias = dict[str, Heard | Unreachable]
"""By Machine."""


@frozen
class Reached:
    etcd: Etcd
    roads: Mapping[str, Road]
    """To those Machines that were heard from."""
    goes_around: bool
    """Whether straight roads led to none of them."""


async def hear(
    hosts: Sequence[Host], context: ssl.SSLContext, connection: Connection | None, *, goes_around: bool
) -> Reached | None:
    """None where nothing on the machines is etcd, and the cluster's API shows none. Raises Unreachable."""
    straight = roads.straight(context)
    around = roads.through(connection.origin, context) if connection is not None else None
    first, second = (around, straight) if goes_around and around is not None else (straight, around)
    try:
        async with asyncio.timeout(SECONDS):
            answers = await _all(first, hosts)
            # Of a machine that has not joined yet nothing is expected.
            silent = [host for host in hosts if host.node and isinstance(answers[host.machine], Unreachable)]
            shows_etcd = not silent or await _shows_etcd(connection)
            if silent and shows_etcd and second is not None:
                more = await _all(second, silent)
                answers.update({name: each for name, each in more.items() if isinstance(each, Heard)})
    except TimeoutError:
        raise Unreachable(f"etcd was not seen within {SECONDS:g} s") from None
    heard = [each for each in answers.values() if isinstance(each, Heard)]
    failures = {name: each for name, each in answers.items() if isinstance(each, Unreachable)}
    if not heard:
        if not shows_etcd and all(each.is_nobody for each in failures.values()):
            return None
        raise Unreachable("; ".join(map(str, failures.values())) or "the control plane has no machines")
    is_cut_off = around is not None and all(each.road is around for each in heard)
    known = {name: str(each) for name, each in failures.items()}
    return Reached(together(heard, known), {each.host.machine: each.road for each in heard}, is_cut_off)


def together(heard: Sequence[Heard], failures: Mapping[str, str]) -> Etcd:
    """What all say; and who of them is well: those that follow the leader that most follow. Pure."""
    clusters = {each.status.cluster for each in heard}
    if len(clusters) > 1:
        machines = ", ".join(each.host.machine for each in heard)
        raise Unreachable(f"the Machines {machines} are of {len(clusters)} different etcd clusters")
    [(leader, _)] = Counter(each.status.leader for each in heard).most_common(1)
    followers = [each for each in heard if each.status.leader == leader]
    others = [each.host.machine for each in heard if each.status.leader != leader]
    voice = next((each for each in followers if each.status.member == leader), followers[0])
    known = {member.id for member in voice.members}
    return Etcd(
        members=voice.members,
        leader=leader,
        hosts={each.status.member: each.host.machine for each in followers if each.status.member in known},
        alarms=voice.alarms,
        silences={**failures, **dict.fromkeys(others, "it follows another leader than most")},
    )


async def _all(road: Road, hosts: Sequence[Host]) -> _Answers:
    answers = await asyncio.gather(*(_one(road, host) for host in hosts))
    return {host.machine: answer for host, answer in zip(hosts, answers, strict=True)}


async def _one(road: Road, host: Host) -> Heard | Unreachable:
    try:
        async with road(host) as conversation:
            return await _told(conversation, host, road)
    except Unreachable as error:
        return error
    except Refused as error:
        return Unreachable(str(error))


async def _told(conversation: Conversation, host: Host, road: Road) -> Heard:
    status = await conversation.status()
    if not status.is_well:
        raise Unreachable(f"etcd on Machine {host.machine} reports: {', '.join(status.errors) or 'no leader'}")
    return Heard(host, road, status, await conversation.members(), await conversation.alarms())


async def _shows_etcd(connection: Connection | None) -> bool:
    """Whether the cluster's API has pods of etcd; where it cannot be asked, it might."""
    if connection is None:
        return True
    try:
        pods = await connection.client.list(PODS, "kube-system", label_selector=_POD_SELECTOR, limit=1)
    except errors.NotFound:
        return False
    except errors.ApiError:
        return True
    return bool(pods.items)

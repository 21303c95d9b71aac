"""Which etcd member leaves with a machine, whether it may, and who leads when it has gone. Pure.

| asked                     | answer                                                                                |
|---------------------------|---------------------------------------------------------------------------------------|
| whose is this member      | the machine's whose Node has its name; before it has one, whose address its peer URL is |
| its peer URL is another's | nobody's: two machines have one Node name, so that neither may be taken for the other  |
| may it leave              | if, of those that then vote, a majority answers and follows a leader                   |
| who leads next            | of those, the one on the newest machine that stays                                     |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steelyard.controllers.lifecycle.members import saying
from steelyard.controllers.lifecycle.members.saying import Etcd, Member
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object


@frozen
class Host:
    """A control-plane machine, as far as its member is concerned."""

    machine: str
    node: str = ""
    """Empty until it has joined."""
    addresses: tuple[str, ...] = ()
    is_going: bool = False
    created: str = ""

    @property
    def name(self) -> str:
        """What its member is called. Until the Node is known: what kubeadm calls it that was told no other name."""
        return self.node or self.machine


class CannotLeave(Exception):
    """A member has to stay for now; the message says why and what to do."""


_KINDS = ("InternalIP", "ExternalIP")


def host_of(machine: Object) -> Host:
    """Addresses only, those of its own network first: a name could lead anywhere by the time that it is looked up."""
    listed = [objects.mapping(each) for each in objects.sequence(objects.at(machine, "status", "addresses"))]
    addresses = [str(each.get("address")) for kind in _KINDS for each in listed if each.get("type") == kind]
    return Host(
        machine=objects.name(machine),
        node=str(objects.at(machine, "status", "nodeRef", "name") or ""),
        addresses=tuple(dict.fromkeys(saying.host(each) for each in addresses)),
        is_going=objects.is_being_deleted(machine),
        created=str(objects.metadata(machine).get("creationTimestamp") or ""),
    )


def members_on(host: Host, hosts: Iterable[Host], members: Iterable[Member]) -> tuple[Member, ...]:
    """Its members: one, or none when it has left; more where one that never started was left behind.

    Raises CannotLeave where the one of its name is at another machine's address.
    """
    others = [each for each in hosts if each.machine != host.machine]
    found: list[Member] = []
    for member in members:
        is_here = bool(set(member.peers) & set(host.addresses))
        elsewhere = [each for each in others if set(member.peers) & set(each.addresses)]
        if member.name == host.name and elsewhere and not is_here:
            raise CannotLeave(
                f"etcd member {member} has the name of Machine {host.machine}'s Node, but is at the address of Machine "
                f"{elsewhere[0].machine}: two machines have one name. Remove the right member with etcdctl, then the "
                "annotation pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup from the Machine"
            )
        if member.name == host.name or (not member.name and is_here and not elsewhere):
            found.append(member)
    return tuple(found)


def strangers(hosts: Sequence[Host], members: Iterable[Member]) -> tuple[Member, ...]:
    """Members of no machine that there is. One that has no name yet belongs to a machine that is about to join."""
    names = {each.name for each in hosts}
    addresses = {address for each in hosts for address in each.addresses}
    return tuple(each for each in members if each.name and each.name not in names and not addresses & set(each.peers))


def objection(etcd: Etcd, leaving: Iterable[Member]) -> str:
    """Why they must not leave; empty where they may."""
    going = tuple(leaving)
    ids = {each.id for each in going}
    if all(each.is_learner for each in going):
        return ""
    staying = [each for each in etcd.voters if each.id not in ids]
    named = ", ".join(map(str, going))
    if not staying:
        return (
            f"etcd member {named} is the only one with a vote; add a control-plane machine first, or all data is lost"
        )
    well = [each for each in staying if etcd.is_well(each)]
    needed = quorum(len(staying))
    if len(well) >= needed:
        return ""
    silent = ", ".join(str(each) for each in staying if not etcd.is_well(each))
    return (
        f"without etcd member {named}, {len(well)} of {len(staying)} members would be healthy, and at least {needed} "
        f"are required for etcd quorum. Bring back {silent} first"
    )


def next_leader(etcd: Etcd, leaving: Iterable[Member], hosts: Iterable[Host]) -> Member | None:
    """None where nobody else can lead."""
    ids = {each.id for each in leaving}
    machines = {each.machine: each for each in hosts}
    candidates = [each for each in etcd.voters if each.id not in ids and etcd.is_well(each)]

    def preference(member: Member) -> tuple[bool, str, str]:
        host = machines.get(etcd.hosts[member.id], Host(""))
        return not host.is_going, host.created, host.machine

    return max(candidates, key=preference, default=None)


def quorum(voters: int) -> int:
    return voters // 2 + 1

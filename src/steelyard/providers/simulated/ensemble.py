"""An etcd that exists only as state: who its members are, who of them runs, and what each answers. Pure.

It keeps no keys and values, which the cluster's API has in a database of its own. It answers what is asked about
members, as etcd's JSON gateway does: with a majority it lists and removes them and moves its leadership; without one it
does neither.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube.objects import Object

STATUS: Final = "/v3/maintenance/status"
MOVE: Final = "/v3/maintenance/transfer-leadership"
ALARM: Final = "/v3/maintenance/alarm"
LIST: Final = "/v3/cluster/member/list"
REMOVE: Final = "/v3/cluster/member/remove"


@frozen
class Member:
    id: int
    name: str
    """That of its Node."""
    address: str

    @classmethod
    def of(cls, recorded: Object) -> Member:
        return cls(int(str(recorded.get("id"))), str(recorded.get("name")), str(recorded.get("address")))

    def recorded(self) -> Object:
        return {"id": str(self.id), "name": self.name, "address": self.address}

    def told(self) -> Object:
        return {
            "ID": str(self.id),
            "name": self.name,
            "peerURLs": [f"https://{self.address}:2380"],
            "clientURLs": [f"https://{self.address}:2379"],
        }


@frozen
class Ensemble:
    id: int
    members: tuple[Member, ...] = ()
    running: frozenset[str] = frozenset()
    """Names of those that run."""
    elected: str = ""
    """Who was chosen last; it leads as long as it runs."""

    @property
    def has_quorum(self) -> bool:
        alive = [each for each in self.members if each.name in self.running]
        return len(alive) > len(self.members) // 2

    @property
    def leader(self) -> Member | None:
        alive = [each for each in self.members if each.name in self.running]
        if not self.has_quorum:
            return None
        return next((each for each in alive if each.name == self.elected), alive[0])

    def member(self, name: str) -> Member | None:
        return next((each for each in self.members if each.name == name), None)

    def joined(self, name: str, address: str) -> Ensemble:
        """Again: the same."""
        if self.member(name) is not None:
            return self
        id_ = _number(f"{self.id}/{name}/{address}")
        return replace(self, members=(*self.members, Member(id_, name, address)))

    def with_running(self, names: Iterable[str]) -> Ensemble:
        found = replace(self, running=frozenset(names))
        leader = found.leader
        return replace(found, elected=leader.name) if leader is not None else found

    def without(self, member: Member) -> Ensemble:
        left = replace(self, members=tuple(each for each in self.members if each.id != member.id))
        return left.with_running(self.running)


@frozen
class Answer:
    body: Object
    status: int = 200
    after: Ensemble | None = None
    """Set where the question changed something."""


def new(cluster_id: str, members: Iterable[Mapping[str, object]] = ()) -> Ensemble:
    return Ensemble(_number(cluster_id), tuple(Member.of(dict(each)) for each in members))


def answer(ensemble: Ensemble, asked: str, path: str, question: Object) -> Answer:
    """What the member of the name `asked`, which runs, answers."""
    own, leader = ensemble.member(asked), ensemble.leader
    if own is None:
        return _refused(503, 14, "etcdserver: server stopped")
    header: Object = {"cluster_id": str(ensemble.id), "member_id": str(own.id), "raft_term": "2"}
    if path == STATUS:
        errors: Object = {} if leader is not None else {"errors": ["etcdserver: no leader"]}
        return Answer({"header": header, "version": "3.6.6", "leader": str(leader.id if leader else 0), **errors})
    if leader is None:
        return _refused(503, 14, "etcdserver: request timed out")
    if path == LIST:
        return Answer({"header": header, "members": [each.told() for each in ensemble.members]})
    if path == ALARM:
        return Answer({"header": header})
    if path == MOVE:
        return _moved(ensemble, own, leader, header, str(question.get("targetID")))
    if path == REMOVE:
        return _removed(ensemble, header, str(question.get("ID")))
    return _refused(404, 5, "Not Found")


def _moved(ensemble: Ensemble, own: Member, leader: Member, header: Object, target: str) -> Answer:
    wanted = next((each for each in ensemble.members if str(each.id) == target), None)
    if own.id != leader.id:
        return _refused(400, 9, "etcdserver: not leader")
    if wanted is None or wanted.name not in ensemble.running:
        return _refused(400, 9, "etcdserver: bad leader transferee")
    return Answer({"header": header}, after=replace(ensemble, elected=wanted.name))


def _removed(ensemble: Ensemble, header: Object, target: str) -> Answer:
    wanted = next((each for each in ensemble.members if str(each.id) == target), None)
    if wanted is None:
        return _refused(404, 5, "etcdserver: member not found")
    after = ensemble.without(wanted)
    if not after.members or not after.has_quorum:
        return _refused(503, 14, "etcdserver: unhealthy cluster")
    return Answer({"header": header, "members": [each.told() for each in after.members]}, after=after)


def _refused(status: int, code: int, message: str) -> Answer:
    return Answer({"error": message, "code": code, "message": message}, status)


def _number(text: str) -> int:
    """Never 0."""
    return zlib.crc32(text.encode()) << 32 | zlib.crc32(text[::-1].encode()) | 1

"""etcd's questions and answers as gRPC has them, beside the JSON in which `ensemble` gives them. Pure.

/etcdserverpb.Cluster/MemberRemove  08 2a  ->  /v3/cluster/member/remove  {"ID": "42"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.builtin import wire
from steelyard.kube.objects import Object
from steelyard.providers.simulated import ensemble

Shape: TypeAlias = "Mapping[str, tuple[int, Shape | None]]"
"""Of a message: for each field its number, and its own shape where it is a message again."""

_NUMBERS: Final = frozenset(("cluster_id", "member_id", "revision", "raft_term", "leader", "ID"))
_HEADER: Final[Shape] = {"cluster_id": (1, None), "member_id": (2, None), "raft_term": (4, None)}
_MEMBER: Final[Shape] = {"ID": (1, None), "name": (2, None), "peerURLs": (3, None), "clientURLs": (4, None)}
_STATUS: Final[Shape] = {"header": (1, _HEADER), "version": (2, None), "leader": (4, None), "errors": (8, None)}
_MEMBERS: Final[Shape] = {"header": (1, _HEADER), "members": (2, _MEMBER)}
_PLAIN: Final[Shape] = {"header": (1, _HEADER)}


@frozen
class Method:
    path: str
    """In the JSON gateway."""
    answer: Shape
    subject: str = ""
    """The field of the question that has the number 1, where one matters."""


METHODS: Final[Mapping[str, Method]] = {
    "/etcdserverpb.Maintenance/Status": Method(ensemble.STATUS, _STATUS),
    "/etcdserverpb.Maintenance/Alarm": Method(ensemble.ALARM, _PLAIN),
    "/etcdserverpb.Maintenance/MoveLeader": Method(ensemble.MOVE, _PLAIN, "targetID"),
    "/etcdserverpb.Cluster/MemberList": Method(ensemble.LIST, _MEMBERS),
    "/etcdserverpb.Cluster/MemberRemove": Method(ensemble.REMOVE, _MEMBERS, "ID"),
}


def question(method: Method, message: bytes) -> Object:
    """Raises wire.Corrupt."""
    first = [value for number, value, _, _ in wire.fields(message, 0, len(message)) if number == 1]
    return {method.subject: str(first[-1] if first else 0)} if method.subject else {}


def encoded(answer: Object, shape: Shape) -> bytes:
    """
    >>> encoded({"header": {"member_id": "3"}, "errors": ["no leader"]}, _STATUS)
    b'\\n\\x02\\x10\\x03B\\tno leader'
    """
    found = bytearray()
    for name, (number, inner) in shape.items():
        value = answer.get(name)
        for each in objects.sequence(value) if isinstance(value, list) else [value] if value else []:
            if name in _NUMBERS:
                found += _varint(number << 3 | wire.VARINT) + _varint(int(str(each)))
                continue
            data = encoded(objects.mapping(each), inner) if inner is not None else str(each).encode()
            found += _varint(number << 3 | wire.LENGTH) + _varint(len(data)) + data
    return bytes(found)


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))

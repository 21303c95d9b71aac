"""What etcd says, as values, from the answers of its JSON gateway. Pure.

    {"members": [{"ID": "1027", "name": "cp-1", "peerURLs": ["https://10.0.0.5:2380"]}]}
      ->  (Member(id=1027, name="cp-1", peers=("10.0.0.5",)),)

The administrators of a cluster are not the platform's, and they hold the keys of its etcd: an answer may be anything.
What is read here is bounded, and nothing that it names is ever connected to.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import field

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

_MOST_MEMBERS = 64
_LONGEST_NAME = 253
_LARGEST_ID = 2**64


class Unintelligible(Exception):
    """An answer that no etcd gives; the message says what is wrong about it."""


@frozen
class Member:
    id: int
    name: str = ""
    """That of its Node. Empty until it has started for the first time."""
    peers: tuple[str, ...] = ()
    """Where the others reach it: hosts, in one spelling."""
    is_learner: bool = False
    """Whether it has no vote yet."""

    def __str__(self) -> str:
        return self.name or f"{self.id:x} ({', '.join(self.peers) or 'without address'}, not started yet)"


@frozen
class Status:
    """What one member says about itself."""

    member: int
    cluster: int
    leader: int
    """0 where it knows none."""
    errors: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return self.leader != 0 and not self.errors


@frozen
class Etcd:
    """What is known of a cluster's etcd as a whole."""

    members: tuple[Member, ...]
    leader: int = 0
    hosts: Mapping[int, str] = field(default_factory=dict[int, str])
    """The Machine on which a member answers, of those that answer, know the leader and report no error."""
    alarms: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    silences: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why nothing good was heard from a Machine, of those from which there was not."""

    def is_well(self, member: Member) -> bool:
        return member.id in self.hosts

    @property
    def voters(self) -> tuple[Member, ...]:
        return tuple(each for each in self.members if not each.is_learner)


def members(answer: Object) -> tuple[Member, ...]:
    listed = objects.sequence(answer.get("members"))
    if not listed:
        raise Unintelligible("it names no members")
    if len(listed) > _MOST_MEMBERS:
        raise Unintelligible(f"it names {len(listed)} members")
    found = tuple(_member(objects.mapping(each)) for each in listed)
    if len({each.id for each in found}) != len(found):
        raise Unintelligible("it names a member twice")
    return found


def status(answer: Object) -> Status:
    header = objects.mapping(answer.get("header"))
    errors = tuple(_text(each) for each in objects.sequence(answer.get("errors"))[:_MOST_MEMBERS])
    member, cluster = _number(header.get("member_id")), _number(header.get("cluster_id"))
    if not member or not cluster:
        raise Unintelligible("it does not say which member of which cluster it is from")
    return Status(member, cluster, _number(answer.get("leader") or 0), errors)


def alarms(answer: Object) -> dict[int, tuple[str, ...]]:
    """By member; an alarm of none is none."""
    found: dict[int, tuple[str, ...]] = {}
    for each in map(objects.mapping, objects.sequence(answer.get("alarms"))[:_MOST_MEMBERS]):
        name = _text(each.get("alarm") or "NONE")
        if name != "NONE":
            member = _number(each.get("memberID") or 0)
            found[member] = (*found.get(member, ()), name)
    return found


def host(text: str) -> str:
    """An address in one spelling, so that two can be compared."""
    bare = text.removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return bare


def _member(each: Object) -> Member:
    urls = [_text(url) for url in objects.sequence(each.get("peerURLs"))[:_MOST_MEMBERS]]
    id_ = _number(each.get("ID"))
    if not id_:
        raise Unintelligible("it has a member without ID")
    return Member(id_, _text(each.get("name") or ""), _hosts(urls), bool(each.get("isLearner")))


def _hosts(urls: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    for url in urls:
        try:
            name = urllib.parse.urlsplit(url).hostname
        except ValueError:
            continue
        if name:
            found.append(host(name))
    return tuple(found)


def _number(value: object) -> int:
    """Written as text in JSON, since its numbers are not exact to 64 bits."""
    text = str(value)
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= _LARGEST_ID:
        raise Unintelligible(f"{text[:40]!r} is no number of 64 bits")
    return int(text)


def _text(value: object) -> str:
    return str(value)[:_LONGEST_NAME]

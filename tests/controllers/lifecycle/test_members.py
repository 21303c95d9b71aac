"""Decisions about etcd members as tables: whose a member is, may it leave, who leads next, how it is; and what is read
out of answers that an etcd would not give."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.controllers.lifecycle.members import health, leaving, saying
from steelyard.controllers.lifecycle.members.exchange import Unreachable
from steelyard.controllers.lifecycle.members.hearing import Heard, together
from steelyard.controllers.lifecycle.members.leaving import CannotLeave, Host
from steelyard.controllers.lifecycle.members.saying import Etcd, Member, Status
from steelyard.kube.objects import Object


def host(name: str, number: int, **fields: Any) -> Host:
    given: dict[str, Any] = {"node": name, "addresses": (f"10.0.0.{number}",), "created": f"2025-01-0{number}"}
    return Host(name, **{**given, **fields})


def member(name: str, number: int, **fields: Any) -> Member:
    return Member(number, name, (f"10.0.0.{number}",), **fields)


A, B, C = host("a", 1), host("b", 2), host("c", 3)
HOSTS = (A, B, C)
MEMBERS = (member("a", 1), member("b", 2), member("c", 3))


def etcd(*members: Member, leader: int = 1, silent: str = "", **fields: Any) -> Etcd:
    """All answer but those of the names given."""
    hosts = {each.id: each.name for each in members if each.name and each.name not in silent}
    return Etcd(members or MEMBERS, leader=leader, hosts=hosts or {1: "a", 2: "b", 3: "c"}, **fields)


@pytest.mark.parametrize(
    ("leaves", "members", "expected"),
    [
        pytest.param(B, MEMBERS, [2], id="by the name of its Node"),
        pytest.param(host("m", 2, node="b"), MEMBERS, [2], id="which may not be the machine's"),
        pytest.param(host("b", 2, node=""), MEMBERS, [2], id="by the machine's before it has a Node"),
        pytest.param(B, (member("a", 1), member("", 2)), [2], id="by its address before it has started"),
        pytest.param(B, (member("b", 2), Member(9, "", ("10.0.0.2",))), [2, 9], id="with what an earlier try left"),
        pytest.param(B, (member("a", 1), member("c", 3)), [], id="none: it has left"),
        pytest.param(B, (member("a", 1), member("", 4)), [], id="not one that starts on a machine of nobody's"),
        pytest.param(B, (Member(2, "b", ("10.9.9.9",)),), [2], id="though it got another address since"),
        pytest.param(host("b", 2, addresses=()), (Member(9, "", ()),), [], id="not one without any address"),
    ],
)
def test_the_member_that_leaves_is_the_machines(leaves: Host, members: tuple[Member, ...], expected: list[int]) -> None:
    assert [each.id for each in leaving.members_on(leaves, HOSTS, members)] == expected


def test_a_member_at_another_machines_address_is_never_taken_for_this_ones() -> None:
    """Two machines with one Node name."""
    with pytest.raises(
        CannotLeave, match=r"at the address of Machine c: two machines have one name. Remove .* etcdctl"
    ):
        leaving.members_on(B, HOSTS, (member("a", 1), Member(2, "b", ("10.0.0.3",))))


@pytest.mark.parametrize(
    ("known", "leaves", "expected"),
    [
        pytest.param(etcd(), "a", "", id="two of three stay"),
        pytest.param(etcd(*MEMBERS, silent="a"), "a", "", id="the dead one of three leaves"),
        pytest.param(
            etcd(*MEMBERS, silent="b"),
            "a",
            "1 of 2 members would be healthy, and at least 2",
            id="a healthy one may not",
        ),
        pytest.param(etcd(member("a", 1), member("b", 2)), "a", "", id="one of two stays"),
        pytest.param(etcd(member("a", 1), member("b", 2), silent="b"), "a", "0 of 1", id="the other one is dead"),
        pytest.param(etcd(member("a", 1)), "a", "the only one with a vote", id="nobody would be left"),
        pytest.param(
            etcd(member("a", 1), member("b", 2, is_learner=True)), "a", "the only one with a vote", id="but a learner"
        ),
        pytest.param(etcd(member("a", 1), member("b", 2, is_learner=True)), "b", "", id="a learner may always leave"),
        pytest.param(
            etcd(*MEMBERS, member("d", 4), member("e", 5), silent="de"), "a", "2 of 4", id="five of which two are dead"
        ),
        pytest.param(
            etcd(*MEMBERS, member("d", 4), member("e", 5), silent="de"), "d", "", id="of those a dead one may leave"
        ),
        pytest.param(
            etcd(*MEMBERS, member("", 4)), "a", "", id="one that never started is a voter, and not healthy: 2 of 3"
        ),
        pytest.param(etcd(member("a", 1), member("b", 2), member("", 4)), "a", "1 of 2", id="and here one too many"),
    ],
)
def test_a_member_leaves_only_where_a_majority_of_the_rest_is_healthy(known: Etcd, leaves: str, expected: str) -> None:
    going = [each for each in known.members if each.name == leaves]
    found = leaving.objection(known, going)
    assert expected in found
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("known", "hosts", "expected"),
    [
        pytest.param(etcd(), HOSTS, 3, id="the newest machine's"),
        pytest.param(etcd(*MEMBERS, silent="c"), HOSTS, 2, id="that is healthy"),
        pytest.param(etcd(), (A, B, host("c", 3, is_going=True)), 2, id="and stays"),
        pytest.param(
            etcd(), (A, host("b", 2, is_going=True), host("c", 3, is_going=True)), 3, id="unless all others go"
        ),
        pytest.param(etcd(*MEMBERS[:2], member("c", 3, is_learner=True)), HOSTS, 2, id="never a learner"),
        pytest.param(etcd(member("a", 1)), HOSTS, None, id="nobody"),
    ],
)
def test_leadership_goes_to_the_newest_machine_that_is_well(
    known: Etcd, hosts: tuple[Host, ...], expected: int | None
) -> None:
    chosen = leaving.next_leader(known, [MEMBERS[0]], hosts)
    assert (chosen.id if chosen else None) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(MEMBERS, [], id="all are of machines"),
        pytest.param((*MEMBERS, member("gone", 9)), ["gone"], id="one is not"),
        pytest.param((*MEMBERS, Member(9, "x", ("10.0.0.2",))), [], id="of another name, but at a machine's address"),
        pytest.param((*MEMBERS, member("", 9)), [], id="one that is about to start"),
    ],
)
def test_members_of_no_machine_are_known_for_what_they_are(members: tuple[Member, ...], expected: list[str]) -> None:
    assert [each.name for each in leaving.strangers(HOSTS, members)] == expected


@pytest.mark.parametrize(
    ("known", "status", "message"),
    [
        pytest.param(etcd(), "True", "", id="well"),
        pytest.param(etcd(member("a", 1), member("c", 3)), "False", "composed by a, c, but", id="not a member"),
        pytest.param(etcd(alarms={2: ("NOSPACE",)}), "False", "alarms: NOSPACE", id="alarmed"),
        pytest.param(etcd(alarms={1: ("NOSPACE",)}), "True", "", id="another one is"),
        pytest.param(etcd(*MEMBERS, silent="b", silences={"b": "connection refused"}), "False", "refused", id="silent"),
        pytest.param(etcd(MEMBERS[0], member("b", 2, is_learner=True)), "False", "learner", id="without vote"),
        pytest.param(etcd(MEMBERS[0], Member(2, "b", ("10.0.0.3",))), "False", "two machines", id="somebody else's"),
    ],
)
def test_the_machine_says_how_its_member_is(known: Etcd, status: str, message: str) -> None:
    verdict = health.of_member(B, HOSTS, known)
    assert (verdict.type, verdict.status) == ("EtcdMemberHealthy", status)
    assert verdict.reason == ("Healthy" if status == "True" else "NotHealthy")
    assert message in verdict.message


def test_the_control_plane_says_which_members_have_no_machine() -> None:
    known = etcd(*MEMBERS, member("gone", 9))
    assert health.of_cluster(HOSTS, known) == ("Etcd member gone does not have a corresponding Machine",)


class TestTogether:
    """What several members say, put together."""

    @staticmethod
    def heard(host: Host, number: int, *, leader: int = 1, cluster: int = 7) -> Heard:
        async_road: Any = None
        return Heard(host, async_road, Status(number, cluster, leader), MEMBERS, {})

    def test_those_that_follow_one_leader_are_well(self) -> None:
        known = together([self.heard(A, 1), self.heard(B, 2), self.heard(C, 3, leader=3)], {})
        assert (known.leader, dict(known.hosts)) == (1, {1: "a", 2: "b"})
        assert "another leader" in known.silences["c"]

    def test_one_that_the_others_do_not_list_is_not(self) -> None:
        assert dict(together([self.heard(A, 1), self.heard(B, 99)], {}).hosts) == {1: "a"}

    def test_members_of_different_clusters_are_never_mixed(self) -> None:
        with pytest.raises(Unreachable, match="2 different etcd clusters"):
            together([self.heard(A, 1), self.heard(B, 2, cluster=8)], {})


def test_answers_of_etcd_are_understood() -> None:
    listed: Object = {
        "header": {"cluster_id": "5", "member_id": "18446744073709551615", "raft_term": "2"},
        "members": [
            {
                "ID": "18446744073709551615",
                "name": "a",
                "peerURLs": ["https://10.0.0.1:2380", "https://[FD00::0:1]:2380"],
            },
            {"ID": "2", "peerURLs": ["https://b.example:2380"], "isLearner": True},
        ],
    }
    assert saying.members(listed) == (
        Member(2**64 - 1, "a", ("10.0.0.1", "fd00::1")),
        Member(2, "", ("b.example",), is_learner=True),
    )
    told: Object = {**listed, "leader": "2", "errors": ["etcdserver: no leader"]}
    assert saying.status(told) == Status(2**64 - 1, 5, 2, ("etcdserver: no leader",))
    assert saying.alarms({"alarms": [{"memberID": "2", "alarm": "NOSPACE"}, {"memberID": "3"}]}) == {2: ("NOSPACE",)}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"members": "a"}, id="no list"),
        pytest.param({"members": [{"name": "a"}]}, id="no ID"),
        pytest.param({"members": [{"ID": "-1"}]}, id="a negative ID"),
        pytest.param({"members": [{"ID": "9" * 4000}]}, id="an endless ID"),
        pytest.param({"members": [{"ID": "1"}, {"ID": "1"}]}, id="one twice"),
        pytest.param({"members": [{"ID": str(number)} for number in range(1, 200)]}, id="far too many"),
    ],
)
def test_an_answer_that_etcd_would_not_give_is_not_believed(answer: Object) -> None:
    with pytest.raises(saying.Unintelligible):
        saying.members(answer)


def test_names_are_cut_before_they_reach_a_condition() -> None:
    [found] = saying.members(
        {"members": [{"ID": "1", "name": "x" * 100_000, "peerURLs": ["https://[::1", "y" * 9999]}]}
    )
    assert (len(found.name), found.peers) == (253, ())


def test_only_addresses_that_the_infrastructure_reports_are_gone_to_and_never_a_name() -> None:
    machine: Object = {
        "metadata": {"name": "m", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "status": {
            "nodeRef": {"name": "n"},
            "addresses": [
                {"type": "Hostname", "address": "n"},
                {"type": "ExternalIP", "address": "192.0.2.1"},
                {"type": "InternalIP", "address": "FD00::0:1"},
                {"type": "InternalDNS", "address": "n.internal"},
            ],
        },
    }
    assert leaving.host_of(machine) == Host("m", "n", ("fd00::1", "192.0.2.1"), created="2025-01-01T00:00:00Z")

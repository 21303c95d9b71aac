"""How the etcd member on a machine is, in the words of the conditions that upstream's control plane sets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.controllers.lifecycle.members import leaving
from steelyard.controllers.lifecycle.members.leaving import CannotLeave, Host
from steelyard.controllers.lifecycle.members.saying import Etcd
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

MEMBER: Final = "EtcdMemberHealthy"
_BAD: Final = "NotHealthy"


def of_member(host: Host, hosts: Sequence[Host], etcd: Etcd) -> Verdict:
    try:
        own = leaving.members_on(host, hosts, etcd.members)
    except CannotLeave as error:
        return verdicts.false(MEMBER, _BAD, str(error))
    if not own:
        message = f"Etcd reports the cluster is composed by {', '.join(map(str, etcd.members))}, but the etcd member"
        return verdicts.false(MEMBER, _BAD, f"{message} hosted on this Machine is not included")
    alarms = [alarm for member in own for alarm in etcd.alarms.get(member.id, ())]
    if alarms:
        return verdicts.false(MEMBER, _BAD, f"Etcd reports alarms: {', '.join(alarms)}")
    if all(member.is_learner for member in own):
        return verdicts.false(MEMBER, _BAD, "The etcd member is a learner: it has not been promoted to vote yet")
    if not any(etcd.is_well(member) for member in own):
        cause = etcd.silences.get(host.machine, "it does not answer as a member of the cluster")
        return verdicts.false(MEMBER, _BAD, f"The etcd member is not healthy: {cause}")
    return verdicts.true(MEMBER, "Healthy")


def unknown(problem: str) -> Verdict:
    return verdicts.unknown(MEMBER, "InspectionFailed", f"Failed to connect to etcd: {problem}")


def of_cluster(hosts: Sequence[Host], etcd: Etcd) -> tuple[str, ...]:
    """What is wrong with it that is no machine's: told on the control plane."""
    return tuple(
        f"Etcd member {each} does not have a corresponding Machine" for each in leaving.strangers(hosts, etcd.members)
    )

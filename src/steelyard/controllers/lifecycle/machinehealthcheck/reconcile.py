"""Judges the machines that a check selects, and has those replaced that fail it: by their owner, or by somebody else.

A check that finds too many unhealthy says so and has none replaced. While the cluster's API cannot be reached, nothing
is known of its Nodes and nothing is judged. The next look is when the first machine's time runs out, or when something
changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import MACHINE_HEALTH_CHECKS
from steelyard.controllers.lifecycle import marks, pausing
from steelyard.controllers.lifecycle.machinehealthcheck import checks, limits, status
from steelyard.controllers.lifecycle.machinehealthcheck.checks import Checks, Finding
from steelyard.controllers.lifecycle.machinehealthcheck.external import External, is_to_be_asked_again
from steelyard.controllers.lifecycle.machinehealthcheck.limits import Allowance
from steelyard.controllers.lifecycle.machinehealthcheck.selection import Selection
from steelyard.controllers.lifecycle.view import View
from steelyard.controllers.lifecycle.workload import Connection, Workloads
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import logs, verdicts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.verdicts import Verdict

_CONNECTION_RETRY = 30.0
_ASK_AGAIN = 5.0
"""Seconds after which a template is looked for again that is not there yet."""
_WAITING = verdicts.false(marks.OWNER_REMEDIATED, "WaitingForRemediation", "Waiting for remediation")

_log = logs.get(__name__)


class MachineHealthCheckReconciler:
    def __init__(
        self,
        client: Client,
        view: View,
        selection: Selection,
        workloads: Workloads,
        clock: Clock,
        recorder: Recorder | None,
    ) -> None:
        self._client = client
        self._view = view
        self._selection = selection
        self._workloads = workloads
        self._clock = clock
        self._recorder = recorder

    async def reconcile(self, key: Key) -> Result:
        check = self._selection.checks.get(*key)
        cluster = self._view.cluster_of(check) if check is not None else None
        if check is None or cluster is None or any(map(objects.is_being_deleted, (check, cluster))):
            return Result()
        draft = Draft(self._client, MACHINE_HEALTH_CHECKS, check)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        draft.set_label(wellknown.CLUSTER_NAME_LABEL, objects.name(cluster))
        draft.add_owner(cluster, controller=False)
        await draft.save_object()
        is_initialized = bool(objects.at(cluster, "status", "initialization", "controlPlaneInitialized"))
        connection = await self._connection(cluster) if is_initialized else None
        if is_initialized and connection is None:
            return Result(_CONNECTION_RETRY)
        findings = self._findings(draft.object, cluster, connection)
        allowance = _allowance(draft.object, findings)
        is_done = await self._mark(draft.object, findings, allowance)
        status.update(draft.object, findings, allowance, self._clock.now())
        await draft.save_status()
        moments = [each.look_again for each in findings if each.look_again is not None]
        return Result(min(moments if is_done else [*moments, _ASK_AGAIN], default=None))

    async def _connection(self, cluster: Object) -> Connection | None:
        """None where the Nodes of the cluster are not known as they are now."""
        found = await self._workloads.connection(Key.of(cluster))
        is_up = found is not None and found.is_synced and not self._workloads.problem(Key.of(cluster))
        return found if is_up else None

    def _findings(self, check: Object, cluster: Object, connection: Connection | None) -> list[Finding]:
        wanted = Checks.of(check)
        now = self._clock.now()
        found: list[Finding] = []
        for machine in checks.targets(self._selection.machines_of(check, cluster)):
            provider_id = str(objects.at(machine, "spec", "providerID") or "")
            node = connection.node(provider_id) if connection is not None and provider_id else None
            found.append(checks.examine(machine, node, cluster, wanted, now))
        return found

    async def _mark(self, check: Object, findings: Sequence[Finding], allowance: Allowance | str) -> bool:
        """Says on each machine what was found, and of those that failed who is to act, if anybody may. Whether all who
        are to act could be asked."""
        is_done = True
        template = objects.mapping(objects.at(check, "spec", "remediation", "templateRef"))
        external = External(self._client, template, objects.namespace(check)) if template else None
        is_allowed = isinstance(allowance, Allowance) and not allowance.refusal
        for each in findings:
            if each.verdict is None:
                continue
            wanted = [each.verdict]
            if each.is_healthy and external is not None:
                await external.take_back(each.machine)
            elif each.is_unhealthy and is_allowed:
                asked = await external.ask(each.machine) if external is not None else _asked_of_owner(each.machine)
                is_done = is_done and not (external is not None and is_to_be_asked_again(asked))
                wanted += [asked] if asked is not None else []
            is_news = each.is_unhealthy and not marks.is_unhealthy(each.machine)
            if await marks.put(self._client, each.machine, wanted, self._clock.now()) and is_news:
                self._tell(check, each)
        if isinstance(allowance, Allowance) and allowance.refusal and any(each.is_unhealthy for each in findings):
            self._warn(check, allowance.refusal)
        return is_done

    def _tell(self, check: Object, finding: Finding) -> None:
        reason = finding.verdict.message if finding.verdict is not None else ""
        _log.warning("machine is unhealthy", machine=objects.name(finding.machine), reason=reason)
        if self._recorder is not None:
            message = f"Machine has been marked as unhealthy by {objects.name(check)}: {reason}"
            self._recorder.warning(finding.machine, "MachineMarkedUnhealthy", message)

    def _warn(self, check: Object, refusal: str) -> None:
        if self._recorder is not None and not verdicts.is_false(check, status.ALLOWED):
            self._recorder.warning(check, "RemediationRestricted", refusal)


def _allowance(check: Object, findings: Sequence[Finding]) -> Allowance | str:
    healthy = sum(each.is_healthy for each in findings)
    try:
        return limits.allowance(check, len(findings), healthy)
    except limits.BadLimit as error:
        return str(error)


def _asked_of_owner(machine: Object) -> Verdict | None:
    """None where the owner is at it already, or where the machine goes anyway."""
    if objects.is_being_deleted(machine) or verdicts.is_false(machine, marks.OWNER_REMEDIATED):
        return None
    return _WAITING

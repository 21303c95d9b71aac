"""MachineHealthChecks of a cluster: a machine whose Node falls silent, or never comes, is replaced.

Never many at once: where more than two of five are affected, the cause is somewhere else, and new machines would only
add to it.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import names
from steelyard.compose.composed import Desired
from steelyard.compose.parts import of_cluster, of_pool
from steelyard.compose.shape import Shape
from steelyard.kube.objects import Object

_STARTUP_SECONDS: Final = 1200
"""A root disk is filled from a registry before the machine boots; over a slow network that takes its time."""
_SILENT: Final[Object] = {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}
_UNWELL: Final[Object] = {"type": "Ready", "status": "False", "timeoutSeconds": 600}


def parts(shape: Shape) -> dict[str, Desired]:
    plane = names.control_plane(shape.name)
    # A Node is not ready for want of a network plugin, too, and the control plane is there before it: no new machine
    # would cure that.
    made = {"control-plane-health": _check(shape, plane, {wellknown.CONTROL_PLANE_LABEL: ""}, [_SILENT])}
    for pool in shape.pools:
        name = names.machine_deployment(shape.name, pool.name)
        selected = {wellknown.MACHINE_DEPLOYMENT_LABEL: name}
        made[of_pool("worker-health", pool)] = _check(shape, name, selected, [_SILENT, _UNWELL])
    return made


def _check(shape: Shape, name: str, selected: dict[str, str], conditions: list[Object]) -> Desired:
    spec: Object = {
        "clusterName": shape.name,
        "selector": {"matchLabels": {wellknown.CLUSTER_NAME_LABEL: shape.name, **selected}},
        "checks": {
            "nodeStartupTimeoutSeconds": _STARTUP_SECONDS,
            "unhealthyNodeConditions": [dict(each) for each in conditions],
        },
        "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}},
    }
    return Desired(resources.MACHINE_HEALTH_CHECKS, of_cluster(shape, resources.MACHINE_HEALTH_CHECKS, name, spec))

"""MachineHealthChecks of a cluster: a machine whose Node falls silent, or never comes, is replaced.

Never many at once: where more than two of five are affected, the cause is somewhere else, and new machines would only
add to it. One always may be: a share alone would leave a pool of two as it is, whatever becomes of it.
"""

from __future__ import annotations

from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import names
from steelyard.compose.composed import Desired
from steelyard.compose.infrastructure import Patience
from steelyard.compose.parts import of_cluster, of_pool
from steelyard.compose.shape import Shape
from steelyard.kube.objects import Object


def parts(shape: Shape, patience: Patience) -> dict[str, Desired]:
    plane = names.control_plane(shape.name)
    silent: Object = {"type": "Ready", "status": "Unknown", "timeoutSeconds": patience.silent}
    unready: Object = {"type": "Ready", "status": "False", "timeoutSeconds": patience.unready}
    # A Node is not ready for want of a network plugin, too, and the control plane is there before it: no new machine
    # would cure that.
    selected = {wellknown.CONTROL_PLANE_LABEL: ""}
    made = {
        "control-plane-health": _check(shape, plane, selected, shape.control_plane.replicas, patience, [silent]),
    }
    for pool in shape.pools:
        name = names.machine_deployment(shape.name, pool.name)
        selected = {wellknown.MACHINE_DEPLOYMENT_LABEL: name}
        made[of_pool("worker-health", pool)] = _check(shape, name, selected, pool.replicas, patience, [silent, unready])
    return made


def _check(
    shape: Shape, name: str, selected: dict[str, str], replicas: int, patience: Patience, conditions: list[Object]
) -> Desired:
    spec: Object = {
        "clusterName": shape.name,
        "selector": {"matchLabels": {wellknown.CLUSTER_NAME_LABEL: shape.name, **selected}},
        "checks": {
            "nodeStartupTimeoutSeconds": patience.startup,
            "unhealthyNodeConditions": [dict(each) for each in conditions],
        },
        "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": max(1, replicas * 2 // 5)}},
    }
    return Desired(resources.MACHINE_HEALTH_CHECKS, of_cluster(shape, resources.MACHINE_HEALTH_CHECKS, name, spec))

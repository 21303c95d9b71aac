"""Pools whose size a cluster-autoscaler decides: what it reads on their MachineDeployments, and whose the number is.

Two must not write the same number. The first one is applied, and an annotation says which it was; as long as that is
what there is, it stays applied. Once it is another, the autoscaler has set it and owns it under server-side apply: from
then on it is left out, and so is the annotation. Only a number out of bounds is set again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from steelyard.compose import names
from steelyard.compose.composed import Condition
from steelyard.compose.shape import Pool
from steelyard.kube import objects
from steelyard.kube.objects import Object

_SIZE: Final = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"


def settled(pool: Pool, observed: Object | None) -> Pool:
    """The pool with the number of machines that it is to have, given its MachineDeployment."""
    found = objects.at(observed, "spec", "replicas")
    if pool.bounds is None or observed is None or found is None:
        return pool
    least, most = pool.bounds
    there = int(found)
    if not least <= there <= most:
        return dataclasses.replace(pool, replicas=min(max(there, least), most))
    applied = objects.annotations(observed)
    has_been_fixed = f"{_SIZE}min-size" not in applied
    is_ours = has_been_fixed or applied.get(names.REPLICAS) == str(there)
    return dataclasses.replace(pool, replicas=there, is_scaled_by_others=not is_ours)


def marks(pool: Pool, bounds: tuple[int, int]) -> dict[str, str]:
    """Bounds, and what a machine of the pool would have, for when there is none to look at."""
    made = {
        f"{_SIZE}min-size": str(bounds[0]),
        f"{_SIZE}max-size": str(bounds[1]),
        f"{_CAPACITY}cpu": str(pool.sizes.cpu_cores),
        f"{_CAPACITY}memory": f"{pool.sizes.memory_gi}Gi",
    }
    if pool.labels:
        made[f"{_CAPACITY}labels"] = ",".join(f"{key}={value}" for key, value in sorted(pool.labels.items()))
    if pool.taints:
        made[f"{_CAPACITY}taints"] = ",".join(f"{each.key}={each.value}:{each.effect}" for each in pool.taints)
    if not pool.is_scaled_by_others:
        made[names.REPLICAS] = str(pool.replicas)
    return made


def conditions(pools: Sequence[Pool]) -> list[Condition]:
    scaled = [pool.name for pool in pools if pool.bounds is not None]
    if not scaled:
        return []
    return [
        Condition(
            "Autoscaled",
            "Unknown",
            "NeedsClusterAutoscaler",
            f"pools with bounds ({', '.join(scaled)}) grow and shrink only while a cluster-autoscaler runs for this "
            "cluster (--cloud-provider=clusterapi), which Steelyard does not install; until then they stay as they are",
        )
    ]

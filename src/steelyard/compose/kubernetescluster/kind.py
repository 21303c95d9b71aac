"""The description of the kind: what `claimkind.py` asks of every kind, said of KubernetesCluster."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from steelyard.api import kubernetescluster, resources, vaultpaths
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.cluster import making, watching
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.integrations import vault
from steelyard.compose.kubernetescluster import composing
from steelyard.compose.kubernetescluster.guide import GUIDE
from steelyard.kube.objects import Object
from steelyard.settings import Platform


def claim_kind(infrastructures: Sequence[Infrastructure]) -> ClaimKind:
    return ClaimKind(
        noun="kubernetes-cluster",
        nouns="kubernetes-clusters",
        definition=functools.partial(kubernetescluster.kind, offered=tuple(each.name for each in infrastructures)),
        parameters=kubernetescluster.Parameters,
        compose=functools.partial(composing.compose, infrastructures={each.name: each for each in infrastructures}),
        guide=GUIDE,
        of_environment={
            "controlPlaneNodes": "control_plane_replicas",
            "workerNodes": "worker_replicas",
            "controlPlaneCPU": "cpu_cores",
            "controlPlaneMemory": "memory_gi",
            "workerCPU": "cpu_cores",
            "workerMemory": "memory_gi",
            "workerStorage": "disk_gb",
        },
        makes=making.resources(infrastructures),
        foreign=making.of_others(infrastructures),
        watches=watching.WATCHES,
        indexed=watching.INDEXED,
        left=watching.left,
        effects=watching.effects_of,
        guards=_guards,
    )


def _guards(platform: Platform) -> list[Object]:
    claims = resources.kubernetes_clusters(platform.domain)
    mount = platform.integrations.vault.mount
    return [vaultpaths.policy(claims, mount, vault.FOLDERS, platform.environment_aliases())]

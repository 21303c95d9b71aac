"""What is used for each parameter: the claim's own word, else what the cluster has already where that stays, else its
environment's, else the platform's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steelyard.api import versions
from steelyard.api.virtualcluster import CANNOT_CHANGE, INSTALLED_ONCE, Parameters, UsedParameters
from steelyard.compose.refusing import Refused
from steelyard.kube.objects import Object
from steelyard.settings import Environment, Platform


def parameters(
    asked: Parameters, platform: Platform, environment: Environment, *, infrastructure: str, running: Object
) -> tuple[UsedParameters, str]:
    """What is used, and why the environment's version is not, where a cluster that runs another cannot go there.

    `running` is what was used so far, as the status reports it; empty for a new claim.
    """
    stays = infrastructure in INSTALLED_ONCE
    wanted = UsedParameters(
        environment=platform.environment_name(asked.environment),
        infrastructure=infrastructure,
        cpu_cores=asked.cpu_cores or environment.cpu_cores,
        memory_gi=asked.memory_gi or environment.memory_gi,
        disk_gb=asked.disk_gb or environment.disk_gb,
        k8sVersion=versions.canonical(asked.k8s_version or environment.kubernetes_version),
        high_availability=(
            environment.control_plane_replicas > 1 if asked.high_availability is None else asked.high_availability
        ),
        ingress_class=(asked.ingress_class or platform.kubevirt.k3s.ingress_class) if stays else None,
    )
    if not running:
        return wanted, ""
    if stays:
        return _as_made(asked, wanted, running)
    version = str(running.get("k8sVersion") or wanted.k8s_version)
    problem = versions.step_problem(version, wanted.k8s_version) if asked.k8s_version is None else ""
    if not problem:
        return wanted, ""
    held_back = (
        f"the version of environment {asked.environment}, {wanted.k8s_version}, cannot be reached from {version}: "
        f"{problem}; until then the cluster stays as it is. Name each version on the way in spec.parameters.k8sVersion"
    )
    return wanted.model_copy(update={"k8s_version": version}), held_back


def _as_made(asked: Parameters, wanted: UsedParameters, running: Object) -> tuple[UsedParameters, str]:
    """Raises `Refused` with everything that the claim asks for and its servers cannot become."""
    made: dict[str, Any] = {
        "disk_gb": running.get("diskGb"),
        "k8s_version": running.get("k8sVersion"),
        "ingress_class": running.get("ingressClass"),
        "high_availability": running.get("highAvailability"),
    }
    kept = {name: value for name, value in made.items() if value is not None}
    if refused := list(_refused(asked, wanted, kept)):
        raise Refused("CannotChange", f"{', '.join(refused)} {CANNOT_CHANGE}")
    held_back = ""
    if wanted.k8s_version != kept.get("k8s_version", wanted.k8s_version):
        held_back = (
            f"the version of environment {asked.environment} is {wanted.k8s_version}, and the servers were made with "
            f"{kept['k8s_version']}, which they keep; make a new claim to have a cluster with it"
        )
    return wanted.model_copy(update=kept), held_back


def _refused(asked: Parameters, wanted: UsedParameters, kept: dict[str, Any]) -> Iterator[str]:
    """`spec.parameters.diskGb (100 now)`"""
    for name, value in kept.items():
        if getattr(asked, name) is not None and getattr(wanted, name) != value:
            spelled = str(value).lower() if isinstance(value, bool) else value
            yield f"spec.parameters.{type(asked).model_fields[name].alias} ({spelled} now)"

"""Defaults and basic rules of pods and of the templates workloads make them from."""

from __future__ import annotations

from typing import Any, Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies.base import default

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_FILE_MODE: Final = 0o644
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def set_defaults(pod: Object) -> None:
    """`pod` is a PodSpec; in place."""
    default(pod, "restartPolicy", "Always")
    default(pod, "dnsPolicy", "ClusterFirst")
    default(pod, "schedulerName", "default-scheduler")
    default(pod, "terminationGracePeriodSeconds", 30)
    default(pod, "securityContext", {})
    account = pod.get("serviceAccountName") or pod.get("serviceAccount")
    if account:
        pod["serviceAccountName"] = pod["serviceAccount"] = account
    for kind in _CONTAINERS:
        for container in _mappings(pod.get(kind)):
            _container_defaults(container)
    for volume in _mappings(pod.get("volumes")):
        _volume_defaults(volume)


def _container_defaults(container: Object) -> None:
    default(container, "terminationMessagePath", "/dev/termination-log")
    default(container, "terminationMessagePolicy", "File")
    default(container, "imagePullPolicy", _pull_policy(str(container.get("image") or "")))
    default(container, "resources", {})
    for port in _mappings(container.get("ports")):
        default(port, "protocol", "TCP")
    for name in _PROBES:
        if isinstance(container.get(name), dict):
            _probe_defaults(objects.mapping(container[name]))
    for variable in _mappings(container.get("env")):
        reference = objects.at(variable, "valueFrom", "fieldRef")
        if isinstance(reference, dict):
            default(objects.mapping(reference), "apiVersion", "v1")


def _pull_policy(image: str) -> str:
    """An image without a tag, or with `latest`, may change under its name."""
    name, _, digest = image.partition("@")
    if digest:
        return "IfNotPresent"
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _probe_defaults(probe: Object) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    request = probe.get("httpGet")
    if isinstance(request, dict):
        default(objects.mapping(request), "path", "/")
        default(objects.mapping(request), "scheme", "HTTP")


def _volume_defaults(volume: Object) -> None:
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(kind), dict):
            default(objects.mapping(volume[kind]), "defaultMode", _FILE_MODE)
    if isinstance(volume.get("hostPath"), dict):
        objects.mapping(volume["hostPath"]).setdefault("type", "")
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def validate(pod: Object, path: str) -> list[Cause]:
    """The rules without which a template means nothing: containers, each with a name of its own and an image."""
    found: list[Cause] = []
    containers = _mappings(pod.get("containers"))
    if not containers:
        found.append(fields.required(f"{path}.containers"))
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(_mappings(pod.get(kind))):
            place = f"{path}.{kind}[{index}]"
            found += _validate_container(container, place)
            name = str(container.get("name") or "")
            if name in seen:
                found.append(fields.duplicate(f"{place}.name", name))
            seen.add(name)
    return found


def _validate_container(container: Object, place: str) -> list[Cause]:
    name, policy = str(container.get("name") or ""), container.get("imagePullPolicy")
    found = [] if name else [fields.required(f"{place}.name")]
    found += [fields.invalid(f"{place}.name", name, text) for text in namerules.dns_label(name) if name]
    if not container.get("image"):
        found.append(fields.required(f"{place}.image"))
    if policy not in _PULL_POLICIES:
        found.append(fields.not_supported(f"{place}.imagePullPolicy", policy, _PULL_POLICIES))
    found += (
        fields.required(f"{place}.env[{index}].name")
        for index, variable in enumerate(_mappings(container.get("env")))
        if not variable.get("name")
    )
    return found


def _mappings(value: Any) -> list[Object]:
    return [objects.mapping(entry) for entry in objects.sequence(value)]

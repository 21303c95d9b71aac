"""The network plugin of a cluster where Argo CD does not install it: manifests that the platform file names, brought
into the cluster by a ClusterResourceSet.

A set finds what it applies only in the cluster's own namespace, so each cluster has copies; and what is different in
each cluster, such as its ranges, takes the place of `${POD_CIDR}` and the like in them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.compose.composed import Condition, Desired, Requirement
from steelyard.compose.integrations import inside
from steelyard.compose.integrations.subject import Integrated, Subject
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS
from steelyard.settings.networkplugins import Manifests

_WHAT: Final = "network-plugin"
_RESOURCES: Final = {each.kind: each for each in (CONFIG_MAPS, SECRETS)}
_VALUES: Final = (
    "POD_CIDR",
    "SERVICE_CIDR",
    "CONTROL_PLANE_ENDPOINT_HOST",
    "CONTROL_PLANE_ENDPOINT_PORT",
    "CONTROL_PLANE_ADDRESSES",
)
_PLACE: Final = re.compile(rf"\$\{{({'|'.join(_VALUES)})\}}")


def of(subject: Subject, control_plane: Sequence[str]) -> Integrated:
    """`control_plane` are the addresses of its machines, as far as they are known."""
    infrastructure = subject.infrastructure
    settings = infrastructure.network_manifests
    sources = settings.of(subject.shape.network.plugin)
    requirements = {
        _required(index): Requirement(_RESOURCES[source.kind], settings.namespace, source.name)
        for index, source in enumerate(sources)
    }
    values = _values(subject, control_plane)
    parts: dict[str, Desired] = {}
    problems: list[str] = []
    waiting: list[str] = []
    retained: set[str] = set()
    for index, source in enumerate(sources):
        what = f"{_WHAT}-{index}" if index else _WHAT
        found = subject.observed.one(_required(index))
        texts, problem = _texts(found, source, settings.namespace, values, infrastructure.name)
        if problem:
            problems.append(problem)
            retained |= {inside.resource_name(what), inside.manifests_name(what)}
            continue
        parts |= inside.delivered(subject.shape, what, texts)
        waiting.append(inside.waiting_for(subject.shape, what, subject.observed))
    because = "; ".join([*problems, *filter(None, waiting)])
    return Integrated(
        parts,
        requirements,
        frozenset(retained),
        f"waiting for {subject.shape.network.plugin} to be installed: {because}" if because else "",
        _conditions(subject, problems),
        waits_untold=bool(problems),
    )


def _required(index: int) -> str:
    return f"network-manifests-{index}"


def _conditions(subject: Subject, problems: Sequence[str]) -> list[Condition]:
    """While no Node is ready nobody comes to what is waited for after the Nodes, so it is told beside."""
    if not problems:
        return []
    told = f"{subject.shape.network.plugin}, without which no Node becomes Ready, cannot be installed yet: "
    return [Condition("NetworkInstalled", "False", "ManifestsNotUsable", told + "; ".join(problems))]


def _values(subject: Subject, control_plane: Sequence[str]) -> dict[str, str]:
    host, _, port = subject.endpoint.removeprefix("https://").rpartition(":")
    network = subject.shape.network
    found = (network.pods, network.services, host.strip("[]"), port, ",".join(control_plane))
    return dict(zip(_VALUES, found, strict=True))


def _texts(
    found: Object | None, source: Manifests, namespace: str, values: Mapping[str, str], infrastructure: str
) -> tuple[dict[str, str], str]:
    """What the source holds for this cluster, and why it cannot be used; one of them is empty."""
    called = f"{source.kind} {namespace}/{source.name}"
    if found is None:
        setting = f"{infrastructure}.networkManifests"
        return {}, f"there is no {called}, which the platform file names ({setting}); create it"
    try:
        texts = _decoded(found) if source.kind == SECRETS.kind else _plain(found)
    except (binascii.Error, UnicodeDecodeError):
        return {}, f"{called} holds what is no text; put manifests in YAML into it"
    if not texts:
        return {}, f"{called} is empty; put manifests into it"
    used = {place for text in texts.values() for place in _PLACE.findall(text)}
    unknown = sorted(place for place in used if not values[place])
    if unknown:
        return {}, f"{called} asks for {', '.join(unknown)}, which is not known yet"
    return {key: _PLACE.sub(lambda place: values[place[1]], text) for key, text in texts.items()}, ""


def _plain(found: Object) -> dict[str, str]:
    return {key: str(value) for key, value in objects.mapping(found.get("data")).items()}


def _decoded(found: Object) -> dict[str, str]:
    data = objects.mapping(found.get("data"))
    return {key: base64.b64decode(str(value), validate=True).decode() for key, value in data.items()}

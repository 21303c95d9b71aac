"""Everything that is composed of every claim there is: of the golden cases that are not refused, of the claims that the
documents print, and of the examples; for tests that hand the objects to those who must accept them."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import yaml

from steelyard import settings
from steelyard.compose import offering
from steelyard.compose.cluster import integrating
from steelyard.compose.composed import NOTHING, Composed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, Resource
from steelyard.settings import Platform
from tests.compose import cases, documents, observing, printed
from tests.harness import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
UPSTREAM = ROOT.parent / "shared" / "crds"
RESOURCE_SET = "addons.cluster.x-k8s.io/resource-set"
BUILT_IN = (
    NAMESPACES,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
)
"""Kinds of Kubernetes' own that clusters are given."""
INTEGRATED = sorted({"vault", *integrating.COMPOSED})
"""What objects are composed for, where the platform file enables it."""


@dataclass(frozen=True)
class Part:
    resource: Resource
    object: Object


@dataclass(frozen=True)
class Rendered:
    """A claim and what was composed of it."""

    title: str
    claim: Object
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Subject:
    """Something to compose, which takes a while: tests are listed more often than they are run."""

    title: str
    render: Callable[[], Rendered]


def everything() -> Iterator[Subject]:
    for case in cases.CASES:
        if not cases.is_refused(case):
            yield Subject(f"golden {case}", functools.partial(_golden, case))
    for title, claim in claims().items():
        for infrastructure in infrastructures_of(title, claim):
            full = f"{title} on {infrastructure}" if infrastructure else title
            yield Subject(full, functools.partial(_claimed, full, claim, infrastructure))


def claims() -> dict[str, Object]:
    """The printed ones, and the examples."""
    found = {f"printed {title}": claim for title, claim in printed.EVERYTHING.items()}
    if documents.FOLDER.is_dir():
        found |= {f"document {title}": claim for title, claim in documents.claims().items()}
    for file in EXAMPLES:
        for obj in yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader):
            if isinstance(obj, dict) and offering.STANDARD.kind_of(obj) is not None:  # pyright: ignore[reportUnknownArgumentType]
                found[f"example {file.name} {obj['metadata']['name']}"] = obj
    return found


def infrastructures_of(title: str, claim: Object) -> tuple[str, ...]:
    """Every one that its machines can be made of; the platform's own (an empty name) for what has no machines, and for
    the examples, which are written for that."""
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    has_choice = "infrastructure" in kind.parameters.model_fields and not title.startswith("example")
    return offering.STANDARD.infrastructure_names if has_choice else ("",)


def platform_of(claim: Object, infrastructure: str = "") -> Platform:
    """Of the claim's domain, with everything enabled that objects are composed for; caches as the documents have them,
    as Helm releases."""
    own = f"infrastructure: {infrastructure}\n" if infrastructure else ""
    enabled = ", ".join(f"{name}: {{enabled: true}}" for name in INTEGRATED)
    return settings.parse(
        f"domain: {printed.domain_of(claim)}\n{own}integrations: {{{enabled}}}\nredis: {{mode: helm}}",
    )


def in_full(claim: Object, platform: Platform) -> Composed:
    """With everything there that others bring about."""
    first = cases.compose(claim, NOTHING, platform)
    return cases.compose(claim, observing.finished(claim, first), platform)


def _golden(case: str) -> Rendered:
    claim = cases.load(case, "claim.yaml")
    composed = cases.compose(claim, cases.observed(case), cases.platform(case))
    assert composed.refusal is None
    return _rendered(f"golden {case}", claim, composed)


def _claimed(title: str, claim: Object, infrastructure: str) -> Rendered:
    return _rendered(title, claim, in_full(claim, platform_of(claim, infrastructure)))


def _rendered(title: str, claim: Object, composed: Composed) -> Rendered:
    parts = [Part(part.resource, objects.copy(part.object)) for part in composed.desired.values()]
    return Rendered(title, claim, (*parts, *(inside for part in parts for inside in _inside(part.object))))


def _inside(obj: Object) -> Iterator[Part]:
    """What a Secret brings into a cluster, by a ClusterResourceSet."""
    if obj.get("type") != RESOURCE_SET:
        return
    for text in objects.mapping(obj.get("data")).values():
        for found in yaml.load_all(base64.b64decode(str(text)), yaml.CSafeLoader):
            for each in cast("list[Object]", found if isinstance(found, list) else [found]):
                resource = _resource(str(each["apiVersion"]), str(each["kind"]))
                if resource is not None:
                    yield Part(resource, each)


@functools.cache
def _resource(api_version: str, kind: str) -> Resource | None:
    """None for one of somebody's whose definitions are not here."""
    for each in BUILT_IN:
        if (each.api_version, each.kind) == (api_version, kind):
            return each
    group, _, version = api_version.rpartition("/")
    for file in sorted(UPSTREAM.glob(f"*/*.{group}.yaml")):
        spec = yaml.load(file.read_bytes(), yaml.CSafeLoader)["spec"]
        if spec["names"]["kind"] == kind:
            namespaced = spec["scope"] == "Namespaced"
            return Resource(group, version, spec["names"]["plural"], kind, namespaced=namespaced)
    assert not UPSTREAM.is_dir(), f"no definition of {kind} in {api_version} is in ../shared/crds"
    return None

"""Every field of a claim by which its author points at something, with a value that is somebody else's: the table that
is tried on the embedded API (`test_references.py`) and on kube-apiserver (`make conformance`).

A field that takes any text is in one of the lists, or a test fails: so a new one has to be thought about.

In values, `$NS` is the namespace that the tenant has, and `$OTHER` one that the tenant has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from steelyard.api import authors, crd
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.api.postgresql import BACK_UP, MAKE_ROOM, REFRESH, ROTATE
from steelyard.compose import offering, refusing
from steelyard.compose.claimkind import ClaimKind
from steelyard.kube import objects
from steelyard.kube.objects import Object

PLATFORM: Final = """
connectionSecrets: {robots: [argocd/controller]}
networks: {apiEndpoints: [{claimsIn: ["*"], hosts: [own.example.org]}]}
postgresql: {templates: [{database: seed}]}
"""
"""Of the platform on which the table is tried: a service account that is almighty, and declared to act for others."""
TENANT: Final = "jane"
ROBOT: Final = "system:serviceaccount:argocd:controller"
_NAME: Final = f"metadata.annotations.{EXTERNAL_NAME}"
_AUTHOR: Final = f"metadata.annotations.{authors.AUTHOR}"
_GROUPS: Final = f"metadata.annotations.{authors.GROUPS}"
_CLONE_AUTHOR: Final = f"metadata.annotations.{authors.CLONE_AUTHOR}"
_CLONE_GROUPS: Final = f"metadata.annotations.{authors.CLONE_GROUPS}"
_PATH: Final = "spec.parameters.vaultPath"
_ENDPOINT: Final = "spec.parameters.apiEndpoint"
_MACHINES: Final = "spec.parameters.infrastructure"
_CONNECTION: Final = "spec.writeConnectionSecretToRef"
_CLONE: Final = "spec.parameters.cloneFrom"
_SETTINGS: Final = "spec.parameters.nodeSettings"
_DELIVERY: Final = "spec.parameters.deliverTo[]"
_DATABASE: Final = ("PostgreSQLInstance",)


@dataclass(frozen=True)
class Reference:
    fields: tuple[str, ...]
    """The first is what it is about; others that it takes to say it."""
    why: str
    own: Mapping[str, str]
    """Values of the tenant's own, which must be accepted: so it is the others that are refused, and nothing else."""
    foreign: Mapping[str, str]
    said: str
    """What the tenant is told."""
    said_to_robot: str = ""
    """What the robot is told, if it is something else."""
    said_later: str = ""
    """What both are told who change a claim to it, if it is something else."""
    kinds: tuple[str, ...] = ()
    """All, if none is named."""


def _connection(name: str, namespace: str = "") -> dict[str, str]:
    return {f"{_CONNECTION}.name": name, **({f"{_CONNECTION}.namespace": namespace} if namespace else {})}


def _delivery(cluster_namespace: str = "") -> dict[str, str]:
    place = {f"{_DELIVERY}.{field}": "web" for field in ("cluster", "namespace", "name")}
    return {**place, **({f"{_DELIVERY}.clusterNamespace": cluster_namespace} if cluster_namespace else {})}


_ELSEWHERE: Final = _connection("copy", "$OTHER")
_FORGED: Final = {_AUTHOR: "admin", _GROUPS: "system:masters\nsystem:authenticated"}
_NO_RIGHT: Final = "jane may not create Secrets there"
_ROBOT: Final = "acts for others, so its own rights do not count"
_STAYS: Final = "it cannot be set, changed or taken off later"

REFERENCES: Final = (
    Reference(
        (f"{_CONNECTION}.namespace", f"{_CONNECTION}.name"),
        "a Secret in another namespace",
        own=_connection("copy", "$NS"),
        foreign=_ELSEWHERE,
        said=_NO_RIGHT,
        said_to_robot=_ROBOT,
    ),
    Reference(
        (_AUTHOR, _GROUPS, f"{_CONNECTION}.name", f"{_CONNECTION}.namespace"),
        "a Secret in another namespace, by the rights of somebody else",
        own=_connection("copy"),
        foreign={**_ELSEWHERE, **_FORGED},
        said=_NO_RIGHT,
        said_to_robot=_ROBOT,
    ),
    Reference(
        (f"{_CONNECTION}.name",),
        "the Secret with the key to another cluster",
        own=_connection("copy"),
        foreign=_connection("other-kubeconfig"),
        said="Cluster API makes a Secret called other-kubeconfig",
    ),
    Reference(
        (_PATH,),
        "credentials of a database in another namespace",
        own={_PATH: "secret/apps/$NS/shop"},
        foreign={_PATH: "secret/apps/dev/$OTHER/shop"},
        said="other paths are other people's",
        kinds=("PostgreSQLInstance",),
    ),
    Reference(
        (_PATH,),
        "what another kind keeps in Vault",
        own={_PATH: "secret/database/$NS"},
        foreign={_PATH: "secret/clusters/$NS"},
        said="other paths are other people's",
        kinds=("PostgreSQLInstance",),
    ),
    Reference(
        (_PATH,),
        "the kubeconfig of a cluster in another namespace",
        own={_PATH: "secret/clusters/$NS/shop"},
        foreign={_PATH: "secret/clusters/dev/$OTHER/shop"},
        said="other paths are other people's",
        kinds=("KubernetesCluster",),
    ),
    Reference(
        (_PATH,),
        "what a database keeps in Vault",
        own={_PATH: "secret/clusters/$NS"},
        foreign={_PATH: "secret/apps/$NS/shop"},
        said="other paths are other people's",
        kinds=("KubernetesCluster",),
    ),
    Reference(
        (_ENDPOINT, _MACHINES),
        "the API of another cluster, where programs are installed with the platform's rights",
        own={_ENDPOINT: "own.example.org:6443", _MACHINES: "kubevirt"},
        foreign={_ENDPOINT: "theirs.example.org:6443", _MACHINES: "kubevirt"},
        said="theirs.example.org is not for claims in",
        kinds=("WorkloadCluster", "KubernetesCluster"),
    ),
    Reference(
        (_NAME,),
        "the database of another environment",
        own={_NAME: "dev_own"},
        foreign={_NAME: "prod_theirs"},
        said="it must begin with dev_ or dev-",
        said_later=_STAYS,
        kinds=("PostgreSQLInstance",),
    ),
    Reference(
        (_NAME,),
        "the database of a claim in another namespace",
        own={_NAME: "dev_two"},
        foreign={_NAME: "dev_theirs_0123456789"},
        said="as the platform's own names do",
        said_later=_STAYS,
        kinds=("PostgreSQLInstance",),
    ),
    Reference(
        (_NAME,),
        "a Helm release of something else",
        own={_NAME: "redis-own"},
        foreign={_NAME: "vault"},
        said="it must begin with redis-",
        said_later=_STAYS,
        kinds=("RedisInstance",),
    ),
    Reference(
        (f"{_CLONE}.namespace", f"{_CLONE}.name"),
        "the data of a database in another namespace",
        own={f"{_CLONE}.name": "other"},
        foreign={f"{_CLONE}.name": "theirs", f"{_CLONE}.namespace": "$OTHER"},
        said="jane may not read Secrets there",
        said_to_robot=_ROBOT,
        said_later="a database stays the copy that it is",
        kinds=_DATABASE,
    ),
    Reference(
        (_CLONE_AUTHOR, _CLONE_GROUPS, f"{_CLONE}.name", f"{_CLONE}.namespace"),
        "the data of a database in another namespace, by the rights of somebody else",
        own={f"{_CLONE}.name": "other"},
        foreign={
            f"{_CLONE}.name": "theirs",
            f"{_CLONE}.namespace": "$OTHER",
            _CLONE_AUTHOR: "admin",
            _CLONE_GROUPS: "system:masters\nsystem:authenticated",
        },
        said="jane may not read Secrets there",
        said_to_robot=_ROBOT,
        said_later="a database stays the copy that it is",
        kinds=_DATABASE,
    ),
    Reference(
        ("spec.parameters.template",),
        "a database that nobody made for copies",
        own={"spec.parameters.template": "seed"},
        foreign={"spec.parameters.template": "postgres"},
        said="none that the platform file allows (postgresql.templates): seed",
        said_later="a database is made of a template once",
        kinds=_DATABASE,
    ),
    Reference(
        ("spec.parameters.extensions[]",),
        "an extension that reaches other servers",
        own={"spec.parameters.extensions[]": "pg_trgm"},
        foreign={"spec.parameters.extensions[]": "dblink"},
        said="none that the platform file allows (postgresql.extensions)",
        kinds=_DATABASE,
    ),
    Reference(
        (
            f"{_DELIVERY}.clusterNamespace",
            f"{_DELIVERY}.cluster",
            f"{_DELIVERY}.namespace",
            f"{_DELIVERY}.name",
        ),
        "a cluster in another namespace",
        own=_delivery(),
        foreign=_delivery("$OTHER"),
        said="jane may not read Secret web-kubeconfig there",
        said_to_robot=_ROBOT,
        kinds=(*_DATABASE, "RedisInstance"),
    ),
)
NO_REFERENCES: Final[Mapping[str, str]] = {
    f"metadata.annotations.{refusing.REVISION}": "one of the platform's own compositions",
    "spec.parameters.environment": "a stage of the platform file, the same for every namespace",
    "spec.parameters.infrastructure": "what the platform offers",
    "spec.parameters.kubernetesVersion": "what the platform offers",
    "spec.parameters.k8sVersion": "what the platform offers",
    **dict.fromkeys(
        (f"spec.parameters.{name}" for name in ("controlPlaneCPU", "controlPlaneMemory", "workerCPU")), "a size"
    ),
    **dict.fromkeys((f"spec.parameters.{name}" for name in ("workerMemory", "workerStorage")), "a size"),
    **dict.fromkeys(
        (f"spec.parameters.{name}" for name in ("backup.every", "rotateEvery", "refreshEvery")), "a duration"
    ),
    "spec.parameters.instance": "a claim in the claim's own namespace, and in no other",
    f"{_CLONE}.backup": "found only among the backups of the claim that cloneFrom names",
    "spec.parameters.masking.tables.*.columns.*.value": "what becomes of the claim's own data",
    "spec.parameters.masking.knownLiterals[]": "what becomes of the claim's own data",
    "metadata.annotations.source": "what it stands for is the platform file's to say",
    **dict.fromkeys((f"metadata.annotations.{each}" for each in (ROTATE, REFRESH, BACK_UP)), "asks once, by being new"),
    f"metadata.annotations.{MAKE_ROOM}": "a moment",
    "metadata.annotations.ttl": "a duration",
    "spec.parameters.ttl": "a duration; what it deletes is the claim itself",
    "spec.parameters.podCidr": "inside the cluster; one that another has is refused where clusters reach each other",
    "spec.parameters.serviceCidr": "as podCidr",
    "spec.parameters.nodePools[].name": "within the cluster's own name; an object of that name is never taken over",
    "spec.parameters.nodePools[].labels.*": "of Nodes inside the cluster",
    "spec.parameters.nodePools[].taints[].key": "of Nodes inside the cluster",
    "spec.parameters.nodePools[].taints[].value": "of Nodes inside the cluster",
    **dict.fromkeys(
        (f"{_SETTINGS}.{name}" for name in ("dnsServers[]", "ntpServers[]", "clusterDns")),
        "what the cluster's own machines and pods ask; they could anyway",
    ),
    **dict.fromkeys(
        (
            f"{_SETTINGS}.{name}"
            for name in (
                "registryMirrors[].registry",
                "registryMirrors[].urls[]",
                "proxy.http",
                "proxy.https",
                "proxy.exceptions[]",
            )
        ),
        "where the cluster's own machines pull from, without anybody's password",
    ),
    f"{_SETTINGS}.clusterDomain": "of names inside the cluster",
    **dict.fromkeys(
        (f"{_SETTINGS}.conntrack.{name}" for name in ("tcpEstablishedTimeout", "tcpCloseWaitTimeout")), "a duration"
    ),
    f"{_SETTINGS}.hostVolumes[].name": "of a volume of the machine's own",
    f"{_SETTINGS}.hostVolumes[].mountPath": "inside the machine",
    f"{_SETTINGS}.hostVolumes[].hostPath": "a directory of a host: the KVMHost says which namespaces may have it, and "
    "the provider asks that of the machine's, links followed (tests/providers/kvm)",
}
"""Any text by its type, and still nothing of anybody's."""
WITHOUT_EFFECT: Final = (
    "spec.compositionRef.name",
    "spec.compositionSelector.matchLabels.*",
    "spec.compositionRevisionRef.name",
    "spec.compositionRevisionSelector.matchLabels.*",
    "spec.resourceRef.apiVersion",
    "spec.resourceRef.kind",
    "spec.resourceRef.name",
)
"""Kept for Crossplane: nothing is composed of them."""


@dataclass(frozen=True)
class Attempt:
    kind: ClaimKind
    reference: Reference

    @property
    def title(self) -> str:
        return f"{self.kind.resource('').kind}: {self.reference.why}"

    def said_to(self, user: str, *, later: bool = False) -> str:
        asked = self.reference
        if later and asked.said_later:
            return asked.said_later
        return asked.said_to_robot if user == ROBOT and asked.said_to_robot else asked.said

    def claim(self, name: str, values: Mapping[str, str], domain: str = "steelyard.dev") -> Object:
        resource = self.kind.resource(domain)
        spec = {"parameters": objects.copy(self.kind.guide.example)["parameters"]}
        claim: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": "$NS"},
            "spec": spec,
        }
        return with_values(claim, values)


def attempts() -> Iterator[Attempt]:
    for kind in offering.STANDARD.kinds:
        for reference in REFERENCES:
            if not reference.kinds or kind.resource("").kind in reference.kinds:
                yield Attempt(kind, reference)


def with_values(obj: Object, values: Mapping[str, str]) -> Object:
    """A copy with the values at their fields; of nothing, a merge patch."""
    made = objects.copy(obj)
    for field, value in values.items():
        place, steps = made, _steps(field)
        for step in steps[:-1]:
            if step.endswith("[]"):
                place = cast(Object, place.setdefault(step.removesuffix("[]"), [{}])[0])
            else:
                place = cast(Object, place.setdefault(step, {}))
        last = steps[-1]
        place[last.removesuffix("[]")] = [value] if last.endswith("[]") else value
    return made


def _steps(field: str) -> list[str]:
    """The key of an annotation has dots of its own."""
    head, found, key = field.partition("metadata.annotations.")
    return ["metadata", "annotations", key] if found and not head else field.split(".")


def texts(kind: ClaimKind) -> Iterator[str]:
    """Fields of a kind's spec that take any text, at most bound by a pattern: `spec.parameters.vaultPath`,
    `spec.compositionSelector.matchLabels.*`, `spec.parameters.pools[].name`."""
    schema = crd.object_schema(kind.definition("steelyard.dev"))
    yield from _texts(objects.mapping(objects.mapping(schema.get("properties")).get("spec")), "spec")


def _texts(schema: Object, field: str) -> Iterator[str]:
    for name, each in objects.mapping(schema.get("properties")).items():
        yield from _texts(cast(Object, each), f"{field}.{name}")
    for key, mark in (("additionalProperties", ".*"), ("items", "[]")):
        within = cast(Any, schema.get(key))
        if isinstance(within, dict):
            yield from _texts(cast(Object, within), f"{field}{mark}")
    is_open = schema.get("type") == "string" and "enum" not in schema
    if is_open or schema.get("x-kubernetes-preserve-unknown-fields"):
        yield field

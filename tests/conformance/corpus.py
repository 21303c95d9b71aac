"""The corpus: sequences of requests, read from `corpus/<bullet>/*.yaml`, one YAML document per sequence.

    name: a patch keeps what it does not name
    invalid: true               # counted as invalid input
    crd: {spec: {...}}          # a definition of its own, installed and served before the first step
    steps:
    - {do: POST $CM, body: {$: cm, metadata: {name: a}}, save: {rv: metadata.resourceVersion}}
    - {do: PATCH $CM/a, as: merge, body: {data: {k: v}}, by: jane}
    - {do: GET $CM/a, cert: trusted}      # a client certificate of `keys.py` instead of a token
    - {do: POST $CM, padding: 9, raw: "$PADDING"}   # xxxxxxxxx
    - {do: GET $CM/a, until: {code: 404}}
    - {watch: w, path: $CM?watch=1}
    - {drain: w, events: 2}               # as many at least, and all that come until it is quiet

A watch with bookmarks gets some by the clock, at a time that no sequence can know. One that is opened `without: timed
bookmarks` leaves those out; the bookmark that ends the initial events stays.

A step may compare a part of the answer where the whole cannot be the same (`pick`, `drop`: see picking.py), and headers
besides (`see: [ETag]`); `save: {etag: "@ETag"}` keeps one.

`$NAME` stands for a path or a saved value, `$: cm` in a body for the apiVersion and kind of a ConfigMap,
`$hook: /deny` for a webhook of `hooks.py`, `$shipped: policy` for what the platform itself applies. Every sequence has
a namespace of its own, `$NS`, which is there before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard.api import policies, resources
from steelyard.compose import offering

FOLDER: Final = Path(__file__).parent / "corpus"
GROUP: Final = "conformance.example.com"
KINDS: Final = {
    "cm": ("v1", "ConfigMap"),
    "secret": ("v1", "Secret"),
    "ns": ("v1", "Namespace"),
    "svc": ("v1", "Service"),
    "sa": ("v1", "ServiceAccount"),
    "event": ("v1", "Event"),
    "newevent": ("events.k8s.io/v1", "Event"),
    "dep": ("apps/v1", "Deployment"),
    "crd": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    "role": ("rbac.authorization.k8s.io/v1", "Role"),
    "binding": ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    "clusterrole": ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    "clusterbinding": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    "vwc": ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    "mwc": ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    "vap": ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    "vapb": ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    "csr": ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    "delete": ("v1", "DeleteOptions"),
    "widget": (f"{GROUP}/v1", "Widget"),
    "gear": ("$GROUP/v1", "Gear"),
    "gear2": ("$GROUP/v2", "Gear"),
    "wc": (f"compute.{GROUP}/v1alpha1", "WorkloadCluster"),
    "ssar": ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
    "sar": ("authorization.k8s.io/v1", "SubjectAccessReview"),
    "lsar": ("authorization.k8s.io/v1", "LocalSubjectAccessReview"),
    "ssrr": ("authorization.k8s.io/v1", "SelfSubjectRulesReview"),
    "ssr": ("authentication.k8s.io/v1", "SelfSubjectReview"),
    "tokenreview": ("authentication.k8s.io/v1", "TokenReview"),
    "tokenrequest": ("authentication.k8s.io/v1", "TokenRequest"),
    "pod": ("v1", "Pod"),
    "pdb": ("policy/v1", "PodDisruptionBudget"),
    "eviction": ("policy/v1", "Eviction"),
}
_PATHS: Final = {
    "CM": "/api/v1/namespaces/$NS/configmaps",
    "SEC": "/api/v1/namespaces/$NS/secrets",
    "DEP": "/apis/apps/v1/namespaces/$NS/deployments",
    "SVC": "/api/v1/namespaces/$NS/services",
    "SA": "/api/v1/namespaces/$NS/serviceaccounts",
    "EV": "/api/v1/namespaces/$NS/events",
    "NEV": "/apis/events.k8s.io/v1/namespaces/$NS/events",
    "NSS": "/api/v1/namespaces",
    "CRDS": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "W": f"/apis/{GROUP}/v1/namespaces/$NS/widgets",
    "G": "/apis/$GROUP/v1/namespaces/$NS/gears",
    "G2": "/apis/$GROUP/v2/namespaces/$NS/gears",
    "VWC": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "MWC": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "VAP": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "VAPB": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "CSR": "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "RBAC": "/apis/rbac.authorization.k8s.io/v1",
    "AUTHZ": "/apis/authorization.k8s.io/v1",
    "WC": f"/apis/compute.{GROUP}/v1alpha1/namespaces/$NS/workloadclusters",
    "SSR": "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "TR": "/apis/authentication.k8s.io/v1/tokenreviews",
    "PODS": "/api/v1/namespaces/$NS/pods",
    "PDB": "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets",
}
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_VARIABLE: Final = re.compile(r"\$(\{[A-Za-z0-9_]+\}|[A-Za-z][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class Sequence:
    bullet: str
    name: str
    steps: tuple[Mapping[str, Any], ...]
    invalid: bool = False
    crd: Mapping[str, Any] | None = None
    source: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def namespace(self) -> str:
        """Derived from the name, so that both servers see the same one."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.bullet} {self.name}".lower()).strip("-")[:60].strip("-")

    def given(self) -> dict[str, str]:
        """The variables it starts with."""
        namespace = self.namespace
        fixed = {"NS": namespace, "GROUP": f"{namespace}.example.com", **self.variables}
        paths = {name: expand(path, fixed) for name, path in _PATHS.items()}
        return {**fixed, **paths}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """A name that is no variable stays as it is: `$patch` and `$setElementOrder` are Kubernetes' own."""
    return _VARIABLE.sub(lambda found: variables.get(found[1].strip("{}"), found[0]), text)


def filled(value: Any, variables: Mapping[str, str]) -> Any:
    """A body with its variables and kinds filled in."""
    if isinstance(value, str):
        return expand(value, variables)
    if isinstance(value, list):
        return [filled(each, variables) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        given = cast("dict[str, Any]", value)
        if "$hook" in given:
            path = given["$hook"]
            given = _hook(path) | {key: each for key, each in given.items() if key != "$hook"}
        if "$shipped" in given:
            given = _shipped(given["$shipped"])
        for key, each in given.items():
            if key == "$":
                api_version, kind = KINDS[each]
                result["apiVersion"], result["kind"] = expand(api_version, variables), kind
            else:
                result[expand(str(key), variables)] = filled(each, variables)
        return result
    return value


def _shipped(what: str) -> dict[str, Any]:
    """What the platform applies for its claims: their definition, the policy that guards them, and its binding."""
    match what:
        case "definition":
            return offering.STANDARD.definitions(GROUP)[0]
        case "policy":
            return policies.connection_secrets(
                GROUP, [resources.workload_clusters(GROUP)], {"$NS": ["kube-public"]}, ["joe"]
            )
        case _:
            return policies.binding(_shipped("policy"))


def _hook(path: str) -> dict[str, Any]:
    """A webhook that is asked about ConfigMaps of the sequence's namespace, and behaves as its path says."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    return {
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$NS"}},
        "clientConfig": {"url": f"$HOOK{path}", "caBundle": "$HOOKCA"},
    }


def bullets() -> list[str]:
    return sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def load(bullet: str = "") -> Iterator[Sequence]:
    for path in sorted(FOLDER.glob(f"{bullet or '*'}/*.yaml")):
        yield from parse(path.read_text(), path.parent.name, path.name)


def parse(text: str, bullet: str, source: str) -> Iterator[Sequence]:
    for document in yaml.load_all(text, Loader=_LOADER):
        if document is None:
            continue
        unknown = set(document) - {"name", "invalid", "crd", "steps", "variables"}
        if unknown:
            raise ValueError(f"{bullet}/{source}: {document.get('name')}: unknown fields {sorted(unknown)}")
        yield Sequence(
            bullet,
            str(document["name"]),
            tuple(document["steps"]),
            bool(document.get("invalid")),
            document.get("crd"),
            source,
            document.get("variables") or {},
        )


def definition(sequence: Sequence, given: Mapping[str, str]) -> dict[str, Any]:
    """The CRD of kind Gear that a sequence's `crd` describes: its `schema`, and anything else of a version.

    With `conversion: /path` there is a version v2 besides, and the webhook of that path converts; with `none` nobody.
    """
    version = {"name": "v1", "served": True, "storage": True, **(sequence.crd or {})}
    schema = version.pop("schema", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    version["schema"] = {"openAPIV3Schema": schema}
    scope = version.pop("scope", "Namespaced")
    conversion = version.pop("conversion", None)
    spec: dict[str, Any] = {
        "group": given["GROUP"],
        "scope": scope,
        "names": {"kind": "Gear", "plural": "gears", "singular": "gear", "listKind": "GearList"},
        "versions": [version],
    }
    if conversion is not None:
        spec["versions"] = [version, {**version, "name": "v2", "storage": False}]
    if conversion not in (None, "none"):
        client = {"url": f"$HOOK{conversion}", "caBundle": "$HOOKCA"}
        spec["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gears.{given['GROUP']}"},
        "spec": filled(spec, given),
    }


def widget() -> dict[str, Any]:
    """The custom kind that is served on both sides from the start: list maps, sets, atomics, subresources."""
    return yaml.safe_load((FOLDER / "widget.yaml").read_text())

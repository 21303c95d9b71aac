"""Claims as Hypothesis draws them: of any kind, valid by construction, with names and parameters up to their bounds.

Values come from the definition of the kind: types, bounds, enums and patterns. What a definition says in CEL cannot be
turned around, so each field that has rules is in a table here; one that is missing fails the tests that draw claims.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st

from steelyard import settings
from steelyard.api import crd
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose import checking
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.offering import STANDARD
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases, rendered

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

KINDS: Mapping[str, ClaimKind] = {kind.resource("").kind: kind for kind in STANDARD.kinds}
INFRASTRUCTURES = STANDARD.infrastructure_names
PLACES = [
    *(
        (kind, infrastructure)
        for kind, described in KINDS.items()
        for infrastructure in (INFRASTRUCTURES if "infrastructure" in described.parameters.model_fields else ("",))
    )
]
"""Every kind on every infrastructure that it can be composed for; an empty name where it has no machines."""
PLATFORMS = ("nothing enabled", "everything enabled")

_GRANTS = 'networks: {apiEndpoints: [{claimsIn: ["*"], hosts: ["*.example.org"]}]}\n'
_LETTERS, _DIGITS = string.ascii_lowercase, string.digits
_NAMESPACE_MAX = 63
_LABEL_MAX = 63
_BETWEEN = len("-md-")
"""What stands between the names of a cluster and of a pool in that of the pool's objects."""


@functools.cache
def platform(infrastructure: str, integrations: str) -> Platform:
    if integrations == PLATFORMS[1]:
        text = (cases.folder("workloadcluster-v2/on-kubevirt-with-everything") / "platform.yaml").read_text("utf-8")
        assert all(f"{name}:" in text for name in rendered.INTEGRATED)
    else:
        text = "domain: pnats.cloud\n"
    own = f"infrastructure: {infrastructure}\n" if infrastructure else ""
    return settings.parse(f"{text}\n{own}{_GRANTS}", infrastructures=INFRASTRUCTURES)


@functools.cache
def check(kind: str, infrastructure: str, integrations: str) -> checking.Check:
    return checking.of(KINDS[kind], platform(infrastructure, integrations), STANDARD)


def labels(longest: int, *, first: str = _LETTERS + _DIGITS) -> st.SearchStrategy[str]:
    """Names as DNS has them: short ones, any, and such as are as long as can be and begin alike."""
    inner, last = st.text(_LETTERS + _DIGITS + "-", max_size=longest - 2), st.sampled_from(_LETTERS + _DIGITS)
    anything = st.tuples(st.sampled_from(first), inner, last).map("".join)
    few = st.sampled_from(
        [name for name in ("a", "a-b", "a-b-c", "a-md-b", "kubeconfig", "dev") if len(name) <= longest]
    )
    alike = last.map(lambda end: f"{'ab-' * longest}"[: longest - 1] + end)
    return st.one_of(few, anything, alike)


def _names(longest: int, infrastructure: str) -> st.SearchStrategy[str]:
    """Of claims. On kubevirt a Service is called after the cluster, and in Vault `kubeconfig` is below each."""
    found = labels(longest, first=_LETTERS if infrastructure == "kubevirt" else _LETTERS + _DIGITS)
    return found.filter(lambda name: name != "kubeconfig") if infrastructure else found


@st.composite
def claims(
    draw: Draw,
    kind: str,
    infrastructure: str,
    *,
    place: tuple[str, str] | None = None,
    names_things: bool = True,
) -> Object:
    """`place` are a namespace and a name to have; with `names_things` the claim may say what things outside of it are
    called: its connection Secret, its path in Vault, its database."""
    schema = _schema(kind)
    longest = int(schema["properties"]["metadata"]["properties"]["name"]["maxLength"])
    namespace, name = place or (draw(labels(_NAMESPACE_MAX)), draw(_names(longest, infrastructure)))
    claim: Object = {
        "apiVersion": KINDS[kind].resource("pnats.cloud").api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": "5b0e7a19"},
    }
    environment = draw(st.sampled_from(["dev", "staging", "production", "pr-7"]))
    ruled = _ruled(infrastructure, room=_LABEL_MAX - _BETWEEN - len(name))
    paths = [f"secret/{_folder(kind)}/{namespace}/x", f"secret/{_folder(kind)}/{environment}/{namespace}/x/y"]
    ruled |= {"environment": st.just(environment), "vaultPath": st.sampled_from(paths)}
    if kind == "PostgreSQLAccess":
        ruled |= {"ttl": st.sampled_from(["5m", "1h", "24h"]), "instance": labels(_LABEL_MAX)}
    # The networks of KVM clusters have an address for it, unless they are on a bridge.
    left_out = {"apiEndpoint"} if infrastructure in ("simulated", "kvm") else set[str]()
    left_out |= set[str]() if infrastructure == "kvm" else {"nodeSettings"}
    left_out |= {"template"} if names_things else {"template", "vaultPath", "deliverTo"}
    parameters = draw(_object(schema["properties"]["spec"]["properties"]["parameters"], ruled, left_out))
    if "backup" in parameters.get("cloneFrom", {"backup": ""}):
        parameters.pop("refreshEvery", None)
    claim["spec"] = {"parameters": parameters}
    if names_things and draw(st.booleans()):
        claim["spec"]["writeConnectionSecretToRef"] = {"name": draw(labels(_LABEL_MAX))}
    if names_things and kind in _EXTERNAL and draw(st.booleans()):
        claim["metadata"]["annotations"] = {EXTERNAL_NAME: f"{_EXTERNAL[kind](environment)}{draw(labels(20))}x"}
    return claim


_EXTERNAL: Mapping[str, Callable[[str], str]] = {
    "PostgreSQLInstance": lambda environment: f"{environment}-",
    "RedisInstance": lambda _: "redis-",
}
"""What names of things outside begin with, by environment."""


def _folder(kind: str) -> str:
    return "apps" if kind == "PostgreSQLInstance" else "clusters"


@functools.cache
def _schema(kind: str) -> Object:
    return crd.object_schema(KINDS[kind].definition("pnats.cloud"))


Ruled: TypeAlias = dict[str, st.SearchStrategy[Any]]


def _ruled(infrastructure: str, room: int) -> Ruled:
    """Strategies for fields that have rules, by their name; `room` is how long the name of a pool may be."""
    cores = st.integers(1, 512).map(str)
    least_memory = 1 if infrastructure == "simulated" else 2
    versions = st.sampled_from(
        ["v1.32.1", "1.32.1", "v1.33.0"] if infrastructure == "kubevirt" else ["1.32.1", "v1.33.4"]
    )
    return {
        "infrastructure": st.just(infrastructure),
        "kubernetesVersion": versions,
        "k8sVersion": versions,
        "memoryGi": st.integers(least_memory, 16384),
        "controlPlaneNodes": st.sampled_from([1, 3, 5]),
        "controlPlaneCPU": cores,
        "workerCPU": cores,
        "controlPlaneMemory": st.integers(least_memory, 16384).map(lambda size: f"{size}Gi"),
        "workerMemory": st.integers(1, 16384).map(lambda size: f"{size}Gi"),
        "workerStorage": st.integers(1, 65536).map(lambda size: f"{size}Gi"),
        # On KVM hosts, machines themselves are in 10.200.0.0/16.
        "podCidr": _ranges(
            "10.{}.0.0/{}", st.integers(128, 199 if infrastructure == "kvm" else 255), st.integers(16, 24)
        ),
        "serviceCidr": _ranges("172.{}.0.0/{}", st.integers(16, 31), st.integers(16, 28)),
        "apiEndpoint": st.tuples(labels(63), st.integers(1, 65535)).map(lambda it: f"{it[0]}.example.org:{it[1]}"),
        "ttl": st.one_of(
            st.integers(1, 8760).map(lambda hours: f"{hours}h"),
            st.integers(10, 525600).map(lambda minutes: f"{minutes}m"),
        ),
        "nodePools": _pools(min(40, room)),
        "networkPlugin": st.sampled_from(
            ["cilium", "calico", "kube-ovn", *(["flannel"] if infrastructure == "kvm" else [])]
        ),
        "nodeSettings": st.fixed_dictionaries({}, optional=_NODE_SETTINGS),
        "primaryClusterDB": st.just(True),
        "extensions": st.lists(st.sampled_from(["pg_trgm", "uuid-ossp", "citext"]), unique=True, max_size=3),
        "backup": st.sampled_from([Object(), {"keep": 3}, {"every": "6h", "keep": 30}]),
        "rotateEvery": _HOURS,
        "refreshEvery": _HOURS,
        "cloneFrom": st.sampled_from(
            [
                {"name": "other"},
                {"name": "other", "namespace": "elsewhere"},
                {"name": "other", "backup": "2026-01-01", "anonymise": False},
            ]
        ),
        "masking": st.sampled_from([Object(), {"tables": {"users": {"columns": {"email": {"action": "hash"}}}}}]),
        "deliverTo": st.lists(
            st.fixed_dictionaries({each: labels(40) for each in ("cluster", "namespace", "name")}), max_size=2
        ),
        "multiTenant": st.just(True),
    }


_NODE_SETTINGS: Ruled = {
    "containerVolumeGb": st.integers(1, 65536),
    "kubeletVolumeGb": st.integers(1, 65536),
    "etcdVolumeGb": st.integers(1, 65536),
    "hostVolumes": st.sampled_from(
        [[], [{"name": "data", "hostPath": "/srv/data", "mountPath": "/data", "readOnly": True}]]
    ),
    "dnsServers": st.lists(st.sampled_from(["10.0.0.53", "fd00::53"]), unique=True),
    "ntpServers": st.lists(st.sampled_from(["ntp.example.org", "10.0.0.123"]), unique=True),
    "registryMirrors": st.sampled_from([[], [{"registry": "*", "urls": ["https://mirror.example.org/v2"]}]]),
    "proxy": st.sampled_from([Object(), {"http": "http://proxy:3128"}, {"exceptions": [".example.org"]}]),
    "clusterDomain": labels(_LABEL_MAX),
    "clusterDns": st.sampled_from(["169.254.20.10", "fd00::10"]),
    "conntrack": st.sampled_from([Object(), {"min": 0, "maxPerCore": 1000, "tcpCloseWaitTimeout": "1h"}]),
}
"""One by one, so that any may stand without the others."""
_HOURS: st.SearchStrategy[str] = st.integers(1, 8760).map(lambda hours: f"{hours}h")


def _ranges(form: str, number: st.SearchStrategy[int], prefix: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    return st.tuples(number, prefix).map(lambda both: form.format(*both))


def _pools(longest: int) -> st.SearchStrategy[list[Object]]:
    items = objects.mapping(_schema("WorkloadCluster")["properties"]["spec"]["properties"]["parameters"])
    schema = items["properties"]["nodePools"]["items"]
    keys = st.tuples(st.sampled_from(["", "example.com/"]), labels(63)).map("".join)
    ruled: Ruled = {
        "name": labels(longest, first=_LETTERS).map(_name_of_pool),
        "labels": st.dictionaries(keys, st.one_of(st.just(""), labels(63)), max_size=3),
        "taints": st.lists(
            st.fixed_dictionaries({"key": keys, "effect": st.sampled_from(["NoSchedule", "NoExecute"])}), max_size=2
        ),
    }
    counts, none = {"replicas", "minReplicas", "maxReplicas"}, Object()
    pool = st.tuples(_object(schema, ruled, counts), st.one_of(st.just(none), _counts())).map(_joined)
    return st.lists(pool, max_size=3, unique_by=_name)


def _joined(both: tuple[Object, Object]) -> Object:
    return {**both[0], **both[1]}


def _name(pool: Object) -> str:
    return str(pool["name"])


def _name_of_pool(text: str) -> str:
    """Without the words that a pool's name may not have."""
    return text.replace("md-", "dm-").replace("control-plane", "plane")


@st.composite
def _counts(draw: Draw) -> Object:
    """How many machines, and within which bounds."""
    least, number, most = sorted(draw(st.tuples(*[st.integers(0, 100)] * 3)))
    bounds = {"minReplicas": least, "maxReplicas": most}
    return draw(st.sampled_from([{"replicas": number}, bounds, {"replicas": number, **bounds}]))


def _object(schema: Object, ruled: Ruled, left_out: set[str]) -> st.SearchStrategy[Object]:
    """Each property that is not required may be there or not."""
    fields = {
        name: ruled[name] if name in ruled else _value(name, objects.mapping(each))
        for name, each in objects.mapping(schema.get("properties")).items()
        if name not in left_out
    }
    required = set(objects.sequence(schema.get("required"))) | ({"infrastructure"} & fields.keys())
    return st.fixed_dictionaries(
        {name: each for name, each in fields.items() if name in required},
        optional={name: each for name, each in fields.items() if name not in required},
    )


def _value(name: str, schema: Object) -> st.SearchStrategy[Any]:
    assert "x-kubernetes-validations" not in schema, f"{name} has rules; say here how to keep them"
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "integer":
            return st.integers(schema["minimum"], schema["maximum"])
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(_value(name, schema["items"]), max_size=schema["maxItems"], unique=True)
        case unknown:
            raise AssertionError(f"{name}: nothing here draws a {unknown}")

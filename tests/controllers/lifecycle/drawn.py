"""KubeadmConfig specs drawn at random: what the fields may hold, so that kubeadm can be asked about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st

Drawn: TypeAlias = st.SearchStrategy[Any]

ENDPOINT = "10.0.0.10:6443"
NAME = "{{ ds.meta_data.hostname }}"
ID = "kvm://{{ ds.meta_data.instance_id }}"


def record(required: Mapping[str, Drawn], optional: Mapping[str, Drawn] | None = None) -> Drawn:
    return st.fixed_dictionaries(dict(required), optional=dict(optional or {}))


def just(value: Any) -> Drawn:
    return st.just(value)


def one(*given: Any) -> Drawn:
    return st.sampled_from(list(given))


def listed(each: Drawn, most: int, identity: Callable[[Any], Any] | None = None) -> Drawn:
    return st.lists(each, max_size=most, unique_by=identity)


def like(pattern: str) -> Drawn:
    return st.from_regex(pattern, fullmatch=True)


names: Drawn = like(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4})?")
paths: Drawn = like(r"(/[a-z][a-z0-9.-]{0,8}){1,3}")
# What would be a template to cloud-init is somebody's intent, and not drawn.
values: Drawn = st.text(st.characters(codec="ascii", min_codepoint=32, exclude_characters="{}"), max_size=20)
arguments: Drawn = listed(record({"name": names, "value": values}), 3)
taints: Drawn = listed(
    record(
        {"key": names, "effect": one("NoSchedule", "PreferNoSchedule", "NoExecute")},
        {"value": names},
    ),
    2,
    lambda taint: (taint["key"], taint["effect"]),
)
volumes: Drawn = listed(
    record(
        {"name": names, "hostPath": paths, "mountPath": paths},
        {"readOnly": st.booleans(), "pathType": one("", "File", "DirectoryOrCreate")},
    ),
    2,
    lambda volume: volume["name"],
)
environment: Drawn = listed(
    record({"name": like(r"[A-Z]{1,5}")}, {"value": values}),
    2,
)
component: Mapping[str, Drawn] = {"extraArgs": arguments, "extraVolumes": volumes, "extraEnvs": environment}
registration: Drawn = record(
    {"name": just(NAME), "kubeletExtraArgs": just([{"name": "provider-id", "value": ID}])},
    {
        "criSocket": just("unix:///run/containerd/containerd.sock"),
        "taints": taints,
        "ignorePreflightErrors": listed(one("Swap", "NumCPU", "Mem"), 2, str),
        "imagePullPolicy": one("Always", "IfNotPresent", "Never"),
        "imagePullSerial": st.booleans(),
    },
)
seconds: Drawn = st.integers(1, 100_000)
timeouts: Drawn = record(
    {},
    dict.fromkeys(
        (
            "controlPlaneComponentHealthCheckSeconds",
            "kubeletHealthCheckSeconds",
            "kubernetesAPICallSeconds",
            "etcdAPICallSeconds",
            "tlsBootstrapSeconds",
            "discoverySeconds",
        ),
        seconds,
    ),
)
phases: Drawn = listed(one("addon/kube-proxy", "preflight", "show-join-command"), 2, str)
patches: Drawn = record({"directory": paths})
endpoints: Drawn = one({}, {"advertiseAddress": "10.0.0.21", "bindPort": 6443}, {"bindPort": 6444})
etcd: Drawn = st.one_of(
    just({}),
    record(
        {
            "local": record(
                {},
                {
                    "dataDir": paths,
                    "extraArgs": arguments,
                    "extraEnvs": environment,
                    "imageRepository": just("registry.example.org/etcd"),
                    "imageTag": just("3.6.6-0"),
                    "peerCertSANs": just(["etcd.example.org"]),
                    "serverCertSANs": just(["10.0.0.9"]),
                },
            )
        }
    ),
    just(
        {
            "external": {
                "endpoints": ["https://etcd.example.org:2379"],
                "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
                "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
                "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
            }
        }
    ),
)
cluster_configurations: Drawn = record(
    {},
    {
        "apiServer": record({}, {**component, "certSANs": just(["api.example.org", "::1"])}),
        "controllerManager": record({}, component),
        "scheduler": record({}, component),
        "etcd": etcd,
        "certificatesDir": just("/etc/kubernetes/pki"),
        "imageRepository": just("registry.example.org"),
        "dns": one({}, {"imageRepository": "registry.example.org/coredns", "imageTag": "v1.12.1"}),
        "certificateValidityPeriodDays": st.integers(1, 365),
        "caCertificateValidityPeriodDays": st.integers(365, 3650),
        "featureGates": one({}, {"NodeLocalCRISocket": True}),
    },
)
tokens: Drawn = listed(
    record(
        {"token": like(r"[a-z0-9]{6}\.[a-z0-9]{16}")},
        {
            "ttlSeconds": seconds,
            "description": values,
            "usages": just(["signing", "authentication"]),
            "groups": just(["system:bootstrappers:kubeadm:default-node-token"]),
        },
    ),
    2,
    lambda token: token["token"][:6],
)
init_configurations: Drawn = record(
    {"nodeRegistration": registration},
    {
        "localAPIEndpoint": endpoints,
        "timeouts": timeouts,
        "skipPhases": phases,
        "patches": patches,
        "bootstrapTokens": tokens,
    },
)
discoveries: Drawn = st.one_of(
    record(
        {
            "bootstrapToken": just(
                {
                    "token": "abcdef.0123456789abcdef",
                    "apiServerEndpoint": ENDPOINT,
                    "caCertHashes": [f"sha256:{'0' * 64}"],
                }
            )
        },
        {"tlsBootstrapToken": just("abcdef.0123456789abcdef")},
    ),
    just({"file": {"kubeConfigPath": "/etc/kubernetes/discovery.conf", "kubeConfig": {"user": {}}}}),
)
join_configurations: Drawn = record(
    {"nodeRegistration": registration, "discovery": discoveries},
    {
        "caCertPath": just("/etc/kubernetes/pki/ca.crt"),
        "timeouts": timeouts,
        "skipPhases": phases,
        "patches": patches,
        "controlPlane": record({}, {"localAPIEndpoint": endpoints}),
    },
)

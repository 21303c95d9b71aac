"""What is applied beside the packages: the function and the providers with how they run, and ProviderConfigs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from steelyard.api.crossplane import (
    CLUSTER_PROVIDER_CONFIGS,
    HELM_GROUP_OF_NAMESPACES,
    KUBERNETES_CONFIG,
    OBJECTS,
    PROVIDER_CONFIGS,
    RELEASES,
)
from steelyard.crossplane.package.references import FUNCTION, PROVIDERS, References
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform

_PACKAGES: Final = "pkg.crossplane.io/v1"
_RUNTIME: Final = "pkg.crossplane.io/v1beta1"
_OF_CLUSTER: Final[Any] = {"plural": "clusterproviderconfigs", "kind": "ClusterProviderConfig", "namespaced": False}
_CONTAINER: Final = "package-runtime"
"""What Crossplane calls the container of a package."""
ADMIN_SECRET: Final = "postgres-admin-creds"  # noqa: S105 - the name of a Secret
"""As the documents call it: username, password, endpoint and port of whoever makes databases."""
PROVIDER_ACCOUNT: Final = "provider-kubernetes"
_ARGUMENTS: Final = {"provider-kubernetes": ("--sanitize-secrets", "--enable-watches", "--poll=1m")}
"""Without the first, the data of Secrets elsewhere could be read from the status of Objects; without the second, what
becomes of an object elsewhere is seen minutes later."""


def files(platform: Platform, references: References) -> Mapping[str, Sequence[Object]]:
    return {
        "install/function.yaml": [_runtime(FUNCTION, ()), _function(references)],
        "install/providers.yaml": [each for name in PROVIDERS for each in _provider(name, references)],
        "install/providerconfigs-legacy.yaml": list(_of_legacy(platform, references)),
        "install/providerconfigs-namespaced.yaml": list(_of_namespaces(platform, references)),
    }


def _function(references: References) -> Object:
    return {
        "apiVersion": _PACKAGES,
        "kind": "Function",
        "metadata": {"name": FUNCTION},
        "spec": {"package": references.function, "runtimeConfigRef": _configured(FUNCTION)},
    }


def _provider(name: str, references: References) -> Iterator[Object]:
    package = f"{references.providers}/{name}:{PROVIDERS[name]}"
    account = PROVIDER_ACCOUNT if name == "provider-kubernetes" else ""
    yield _runtime(name, _ARGUMENTS.get(name, ()), account)
    yield {
        "apiVersion": _PACKAGES,
        "kind": "Provider",
        "metadata": {"name": name},
        "spec": {"package": package, "runtimeConfigRef": _configured(name)},
    }


def _configured(name: str) -> Object:
    return {"apiVersion": _RUNTIME, "kind": "DeploymentRuntimeConfig", "name": name}


def _runtime(name: str, arguments: Sequence[str], account: str = "") -> Object:
    """One replica: the function takes turns in memory where ranges come from pools (`turns.py`)."""
    container: Object = {"name": _CONTAINER}
    if arguments:
        container["args"] = list(arguments)
    container["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec: Object = {
        "deploymentTemplate": {
            "spec": {
                "replicas": 1,
                "selector": {},
                "template": {"spec": {"containers": [container]}},
            }
        }
    }
    if account:
        # Rights are bound to it, so it needs a name that stays.
        spec["serviceAccountTemplate"] = {"metadata": {"name": account}}
    return {
        "apiVersion": _RUNTIME,
        "kind": "DeploymentRuntimeConfig",
        "metadata": {"name": name},
        "spec": spec,
    }


def _of_legacy(platform: Platform, references: References) -> Iterator[Object]:
    yield from (_server(PROVIDER_CONFIGS, name, mode, references) for name, mode in _servers(platform))
    yield _of_objects()
    helm = Resource(RELEASES.group, "v1beta1", "providerconfigs", "ProviderConfig", namespaced=False)
    yield _identity(helm, platform.redis.provider_config)


def _of_namespaces(platform: Platform, references: References) -> Iterator[Object]:
    """Our own provider of databases, where it runs, knows servers by the kind that is in no namespace: so both."""
    for name, mode in _servers(platform):
        yield _server(CLUSTER_PROVIDER_CONFIGS, name, mode, references)
        yield _server(PROVIDER_CONFIGS, name, mode, references)
    yield _of_objects()
    helm = Resource(HELM_GROUP_OF_NAMESPACES, "v1beta1", **_OF_CLUSTER)
    yield _identity(helm, platform.redis.provider_config)


def _of_objects() -> Object:
    return _identity(Resource(OBJECTS.group, "v1alpha1", **_OF_CLUSTER), KUBERNETES_CONFIG)


def _servers(platform: Platform) -> Iterator[tuple[str, str]]:
    """Each with what of TLS it is reached with."""
    for name, server in platform.postgresql.all_servers().items():
        yield name, server.address.ssl_mode if server.address is not None else "verify-full"


def _server(resource: Resource, name: str, mode: str, references: References) -> Object:
    secret = {"namespace": references.namespace, "name": ADMIN_SECRET}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": {
            "credentials": {"source": "PostgreSQLConnectionSecret", "connectionSecretRef": secret},
            "sslMode": mode,
        },
    }


def _identity(resource: Resource, name: str) -> Object:
    """With the rights of the provider's own account."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": {"credentials": {"source": "InjectedIdentity"}},
    }

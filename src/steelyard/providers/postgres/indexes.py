"""How objects of the provider are found in the caches: by their server and what they are called or refer to there."""

from __future__ import annotations

from typing import Final

from steelyard.api.crossplane import DATABASES, EXTENSIONS, GRANTS, ROLES, SCHEMAS
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.mapping import Mapper
from steelyard.providers.postgres import records

NAMES: Final = "postgres-names"
"""`<ProviderConfig>/<name on the server>`."""
REFERS: Final = "postgres-refers"
"""`<Kind>/<ProviderConfig>/<name on the server>` of everything that an object refers to."""
PASSWORDS: Final = "postgres-passwords"
"""`<namespace>/<name>` of the Secret that a Role's password is from."""
MANAGED: Final = (DATABASES, ROLES, GRANTS, EXTENSIONS, SCHEMAS)
CONFIGS: Final = "postgres-configs"
_REFERRED: Final = {
    "owner": ROLES,
    "role": ROLES,
    "memberOf": ROLES,
    "database": DATABASES,
    "schema": SCHEMAS,
}


def config(obj: Object) -> str:
    return str(objects.at(obj, "spec", "providerConfigRef", "name") or "default")


def named(config_name: str, name: str) -> str:
    return f"{config_name}/{name}"


def referred(kind: Resource, config_name: str, name: str) -> str:
    return f"{kind.kind}/{config_name}/{name}"


def add(informers: Informers) -> None:
    for resource in MANAGED:
        informer = informers.of(resource)
        informer.add_index(NAMES, lambda obj: [named(config(obj), records.external_name(obj))])
        informer.add_index(CONFIGS, lambda obj: [config(obj)])
        informer.add_index(REFERS, _references)
    informers.of(ROLES).add_index(PASSWORDS, _passwords)


def who_refers(informers: Informers, resource: Resource, to: Resource) -> Mapper:
    """For a watch on `to`: leads to the objects of `resource` that refer to it by its name on the server."""
    informer = informers.of(resource)

    def keys(obj: Object) -> list[Key]:
        value = referred(to, config(obj), records.external_name(obj))
        return [Key.of(each) for each in informer.by_index(REFERS, value)]

    return keys


def _references(obj: Object) -> list[str]:
    parameters = objects.mapping(objects.at(obj, "spec", "forProvider"))
    return [referred(kind, config(obj), str(parameters[key])) for key, kind in _REFERRED.items() if parameters.get(key)]


def _passwords(obj: Object) -> list[str]:
    reference = objects.mapping(objects.at(obj, "spec", "forProvider", "passwordSecretRef"))
    return [f"{reference.get('namespace')}/{reference.get('name')}"] if reference else []

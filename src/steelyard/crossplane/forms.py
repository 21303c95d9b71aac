"""The two forms in which Crossplane has what a claim is made of, and the way there and back.

    legacy        a composite without a namespace: it may own objects anywhere, and each part is composed as it is, but
                  for those that somebody else is to control (`wrapping.py`)
    namespaced    a composite in a namespace (Crossplane v2) owns only what is in it, so
                    Database                        ->   the Database of postgresql.sql.m.crossplane.io, in it
                    a Namespace, a thing elsewhere  ->   an Object of provider-kubernetes in it, with the manifest

Of a Secret elsewhere the data is in its Object. provider-kubernetes can take it from another Secret, but writes what it
took into the Object all the same (v1.2.1), and in the claim's namespace tenants write Secrets, and no Objects.

Compositions know nothing of it: what they see is what was observed as if each part were there as composed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from steelyard.api.crossplane import (
    CLUSTER_PROVIDER_CONFIGS,
    IN_NAMESPACES,
    PROVIDER_CONFIGS,
    PUSH_SECRETS,
    RELEASES,
)
from steelyard.compose import names
from steelyard.compose.composed import Desired, Requirement
from steelyard.crossplane import selecting, wrapping
from steelyard.crossplane.selecting import Selector
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

MIRROR_OF: Final = "steelyard.dev/mirror-of"
"""Annotation of an Object that holds no part: a copy of the credentials that the resource of this name has written."""
OBJECT_NAME: Final = "steelyard.dev/object-name"
"""Label of a managed resource in a namespace: a digest of its name, by which it is found in all namespaces."""
_MIRROR: Final = "-mirror"
"""What follows a resource name in that of a copy of what its provider wrote."""
_BACK: Final = {(there.api_version, there.kind): here for here, there in IN_NAMESPACES.items()}


class Form(Protocol):
    def inward(self, observed: Mapping[str, Object]) -> dict[str, Object]:
        """The parts as they were composed, under Crossplane's resource names; what is there for the form's sake alone
        is left out."""
        ...

    def outward(self, name: str, part: Desired, pushed: Collection[str]) -> dict[str, Object]:
        """What Crossplane is to make for a part, under its resource names: the part's own comes first. `pushed` are the
        Secrets of credentials that something else reads where compositions say that they are."""
        ...

    def selector(self, requirement: Requirement, written: Collection[str]) -> Selector:
        """`written` are the Secrets that the claim's own managed resources write credentials to."""
        ...

    def required(self, found: Sequence[Object]) -> Sequence[Object]:
        """Answers to `selector`, as compositions know them."""
        ...

    def place(self, part: Desired) -> Selector:
        """Where an object would be that has the part's name."""
        ...


@frozen
class Legacy:
    claim: Object

    def inward(self, observed: Mapping[str, Object]) -> dict[str, Object]:
        found: dict[str, Object] = {}
        for name, obj in observed.items():
            part = wrapping.unwrapped(obj) if wrapping.is_wrapped(obj) else obj
            if part is not None and names.RESOURCE_NAME in objects.annotations(obj):
                found[name] = part
        return found

    def outward(self, name: str, part: Desired, pushed: Collection[str]) -> dict[str, Object]:
        if wrapping.is_anothers_to_control(part):
            return {name: wrapping.wrapped(self.claim, name, part, part.object)}
        return {name: part.object}

    def selector(self, requirement: Requirement, written: Collection[str]) -> Selector:
        return selecting.of(requirement)

    def required(self, found: Sequence[Object]) -> Sequence[Object]:
        return found

    def place(self, part: Desired) -> Selector:
        return selecting.by_name(part.resource, objects.namespace(part.object), objects.name(part.object))


@frozen
class Namespaced:
    claim: Object
    credentials: Mapping[str, str]
    """The namespace for credentials of each group of managed resources, as compositions know it."""

    @property
    def home(self) -> str:
        return objects.namespace(self.claim)

    def inward(self, observed: Mapping[str, Object]) -> dict[str, Object]:
        found: dict[str, Object] = {}
        for name, obj in observed.items():
            annotations = objects.annotations(obj)
            if names.RESOURCE_NAME not in annotations or MIRROR_OF in annotations:
                continue
            part = wrapping.unwrapped(obj) if wrapping.is_wrapped(obj) else self._as_composed(obj)
            if part is not None:
                found[name] = part
        return found

    def outward(self, name: str, part: Desired, pushed: Collection[str]) -> dict[str, Object]:
        if part.resource in IN_NAMESPACES:
            made = {name: self._in_namespace(part)}
            secret = str(objects.at(part.object, "spec", "writeConnectionSecretToRef", "name") or "")
            if secret in pushed:
                made[f"{name}{_MIRROR}"] = self._mirror(name, part, secret)
            return made
        is_at_home = part.resource.namespaced and objects.namespace(part.object) == self.home
        if is_at_home and not part.is_shared and not wrapping.is_anothers_to_control(part):
            return {name: part.object}
        return {name: wrapping.wrapped(self.claim, name, part, part.object)}

    def selector(self, requirement: Requirement, written: Collection[str]) -> Selector:
        resource = IN_NAMESPACES.get(requirement.resource)
        if resource is not None and requirement.name:
            # Two namespaces may have an object of the name, and what it stands for is one thing all the same.
            return Selector(
                resource.api_version, resource.kind, labels={OBJECT_NAME: wrapping.digest(requirement.name)}
            )
        if resource is not None:
            return selecting.of(Requirement(resource, self.home, label=requirement.label))
        if requirement.resource == PROVIDER_CONFIGS:
            return selecting.by_name(CLUSTER_PROVIDER_CONFIGS, "", requirement.name)
        if requirement.resource == SECRETS and requirement.name in written:
            return selecting.by_name(SECRETS, self.home, requirement.name)
        return selecting.of(requirement)

    def required(self, found: Sequence[Object]) -> Sequence[Object]:
        return [self._as_composed(each) for each in found]

    def place(self, part: Desired) -> Selector:
        resource = IN_NAMESPACES.get(part.resource)
        if resource is not None:
            return selecting.by_name(resource, self.home, objects.name(part.object))
        return selecting.by_name(part.resource, objects.namespace(part.object), objects.name(part.object))

    def _in_namespace(self, part: Desired) -> Object:
        resource = IN_NAMESPACES[part.resource]
        metadata = objects.metadata(part.object)
        spec = dict(objects.mapping(part.object.get("spec")))
        policy = spec.pop("deletionPolicy", "Delete")
        if policy == "Orphan":
            spec["managementPolicies"] = list(wrapping.ORPHANED)
        config = objects.mapping(spec.get("providerConfigRef"))
        spec["providerConfigRef"] = {"kind": CLUSTER_PROVIDER_CONFIGS.kind, "name": config.get("name")}
        secret = objects.mapping(spec.get("writeConnectionSecretToRef"))
        if secret:
            spec["writeConnectionSecretToRef"] = {"name": secret.get("name")}
        labels = {**objects.labels(part.object), OBJECT_NAME: wrapping.digest(objects.name(part.object))}
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "namespace": self.home, "labels": labels},
            "spec": spec,
        }

    def _as_composed(self, obj: Object) -> Object:
        """An object of a provider's namespaced kind as one of the kind beside it; others as they are."""
        here = _BACK.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
        if here is None:
            return obj
        spec = dict(objects.mapping(obj.get("spec")))
        policies = objects.sequence(spec.pop("managementPolicies", None))
        spec["deletionPolicy"] = "Orphan" if policies == list(wrapping.ORPHANED) else "Delete"
        spec["providerConfigRef"] = {"name": objects.at(spec, "providerConfigRef", "name")}
        secret = objects.mapping(spec.get("writeConnectionSecretToRef"))
        if secret:
            place = self.credentials.get(here.group, self.home)
            spec["writeConnectionSecretToRef"] = {"namespace": place, "name": secret.get("name")}
        metadata = {key: value for key, value in objects.metadata(obj).items() if key != "namespace"}
        return {**obj, "apiVersion": here.api_version, "kind": here.kind, "metadata": metadata, "spec": spec}

    def _mirror(self, name: str, part: Desired, secret: str) -> Object:
        """Where compositions say that a provider writes credentials, a copy of what it wrote in the namespace."""
        place = str(objects.at(part.object, "spec", "writeConnectionSecretToRef", "namespace") or "")
        metadata: Object = {"name": secret, "namespace": place, "labels": names.claim_labels(self.claim)}
        manifest: Object = {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind, "metadata": metadata}
        wrapped = wrapping.wrapped(self.claim, f"{name}{_MIRROR}", part, {**manifest, "type": "Opaque"})
        wrapped["metadata"]["annotations"][MIRROR_OF] = name
        source: Object = {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind, "namespace": self.home}
        taken: Object = {"patchesFrom": {**source, "name": secret, "fieldPath": "data"}, "toFieldPath": "data"}
        wrapped["spec"]["references"] = [taken]
        return wrapped


def of(form: str, claim: Object, platform: Platform) -> Form:
    if form == "legacy":
        return Legacy(claim)
    databases = platform.postgresql.credentials_namespace
    credentials = {resource.group: databases for resource in IN_NAMESPACES if resource != RELEASES}
    return Namespaced(claim, {**credentials, RELEASES.group: platform.redis.credentials_namespace})


def pushed(parts: Mapping[str, Desired]) -> frozenset[str]:
    """Secrets that something composed puts into Vault, from where compositions say that they are."""
    found = (
        objects.at(part.object, "spec", "selector", "secret", "name")
        for part in parts.values()
        if part.resource == PUSH_SECRETS
    )
    return frozenset(str(each) for each in found if each)


def written(parts: Mapping[str, Desired]) -> frozenset[str]:
    """Secrets that managed resources among the parts write credentials to."""
    found = (
        objects.at(part.object, "spec", "writeConnectionSecretToRef", "name")
        for part in parts.values()
        if part.resource in IN_NAMESPACES
    )
    return frozenset(str(each) for each in found if each)

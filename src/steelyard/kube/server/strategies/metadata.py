"""The server's part in an object's metadata: what it fills in, what it lets nobody change, and how it judges the rest.

The order is upstream's. Create: `fill_create`, the kind's own preparation, then `validate_create`. Update:
`keep_owned`, the kind's preparation, then `validate_update`.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from steelyard.kube import errors, fields, namerules, objectmeta, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema import prune
from steelyard.kube.schema.model import Schema

SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and nothing that looks like another: a generated name spells no word and is read without doubt."""
SUFFIX_LENGTH: Final = 5
_MAX_GENERATED: Final = 63 - SUFFIX_LENGTH

_LABEL_NAMES: Final = frozenset({("", "namespaces"), ("apps", "statefulsets")})
_DNS1035_NAMES: Final = frozenset({("", "services")})
_PATH_NAMES: Final = frozenset(
    {
        ("", "events"),
    }
    | {
        ("rbac.authorization.k8s.io", plural)
        for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    }
    | {("certificates.k8s.io", "certificatesigningrequests")}
)
_FREE_FINALIZERS: Final = frozenset(
    {
        "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io",
        "node.k8s.io",
    }
)  # fmt: skip
"""Groups of built-in kinds whose finalizers need no prefix, like those of custom resources."""
_LOOKS: Final = {
    **dict.fromkeys(
        (
            ("", "configmaps"), ("", "endpoints"), ("", "secrets"), ("", "serviceaccounts"), ("", "services"),
            ("networking.k8s.io", "ingressclasses"), ("networking.k8s.io", "ingresses"),
        ),
        "changes new",
    ),
    **dict.fromkeys(
        (
            ("", "namespaces"), ("", "nodes"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"),
            ("", "replicationcontrollers"), ("batch", "jobs"), ("networking.k8s.io", "ipaddresses"),
            ("networking.k8s.io", "networkpolicies"), ("storage.k8s.io", "storageclasses"),
        ),
        "new changes",
    ),
    ("", "events"): "",
    **dict.fromkeys(
        (("", "limitranges"), ("discovery.k8s.io", "endpointslices"), ("policy", "poddisruptionbudgets")), "new"
    ),
    **dict.fromkeys(
        (
            ("rbac.authorization.k8s.io", plural)
            for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        ),
        "new new changes",
    ),
}  # fmt: skip
"""How the rules of a kind look at an update's metadata; those of the others look at what changed."""
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_ABSENT: Final = (None, "")
_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")


def name_rule(resource: Resource) -> namerules.Rule:
    """What names of this resource look like: mostly DNS subdomains."""
    identity = (resource.group, resource.plural)
    if identity in _LABEL_NAMES:
        return namerules.dns_label
    if identity in _DNS1035_NAMES:
        return namerules.dns1035_label
    return namerules.path_segment if identity in _PATH_NAMES else namerules.dns_subdomain


def generate_name(prefix: str, suffix: str) -> str:
    """`suffix` is five random characters of SUFFIX_ALPHABET."""
    return prefix[:_MAX_GENERATED] + suffix


def is_generated(meta: Object) -> bool:
    """Whether the name looks like one that was made from `generateName`."""
    prefix, name = str(meta.get("generateName") or ""), str(meta.get("name") or "")
    return (
        bool(prefix)
        and len(name) == len(prefix[:_MAX_GENERATED]) + SUFFIX_LENGTH
        and name.startswith(prefix[:_MAX_GENERATED])
    )


def fill_create(obj: Object, now: str, uid: str) -> None:
    """Fills in what only the server may say about a new object; in place. Whatever the client said there is dropped,
    but for the generation, which upstream leaves to the kinds that count theirs, and the resourceVersion, which a dry
    run gives back."""
    meta = cast(Object, obj.setdefault("metadata", {}))
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(key, None)
    meta["uid"] = uid
    meta["creationTimestamp"] = now


def keep_owned(obj: Object, old: Object) -> None:
    """Puts back, on an update, what the client left out or may not change; in place."""
    meta, before = cast(Object, obj.setdefault("metadata", {})), objects.metadata(old)
    meta.pop("selfLink", None)
    for key in ("creationTimestamp", "generation", "deletionTimestamp"):
        if before.get(key) is not None:
            meta[key] = before[key]
        elif key != "deletionTimestamp":
            meta.pop(key, None)
    for key in ("uid", "deletionGracePeriodSeconds", "name", "namespace"):
        if not meta.get(key) and before.get(key) is not None:
            meta[key] = before[key]


def validate_create(meta: Object, resource: Resource, *, custom: bool = False) -> list[Cause]:
    found = objectmeta.validate_new(meta, namespaced=resource.namespaced, rule=name_rule(resource))
    return found + _unqualified_finalizers(meta, resource, custom=custom) if meta.get("finalizers") else found


def validate_update(
    meta: Object, old: Object, resource: Resource, *, custom: bool = False, subresource: str = ""
) -> list[Cause]:
    """`meta` and `old` are the metadata, after `keep_owned`.

    Upstream looks at an update several times: as at something new, at what changed, and at one or both once more with
    the rules of the kind. A mistake is told as often as it is seen.
    """
    found = objectmeta.validate_new(meta, namespaced=resource.namespaced, rule=namerules.path_segment)
    changes = _validate_changes(meta, old)
    found += changes
    unqualified = _unqualified_finalizers(meta, resource, custom=custom) if meta.get("finalizers") else []
    if not found and not unqualified:
        return found
    looks = "changes" if custom or subresource else _LOOKS.get((resource.group, resource.plural), "changes")
    for look in looks.split():
        found += (
            changes
            if look == "changes"
            else objectmeta.validate_new(meta, namespaced=resource.namespaced, rule=name_rule(resource))
        )
        found += unqualified
    return found


def _validate_changes(meta: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    if old.get("deletionTimestamp"):
        added = set(objects.sequence(meta.get("finalizers"))) - set(objects.sequence(old.get("finalizers")))
        if added:
            listed = ", ".join(map(fields.quote, sorted(added)))
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            found.append(fields.forbidden("metadata.finalizers", text))
    if not meta.get("resourceVersion"):
        found.append(fields.invalid("metadata.resourceVersion", "", "must be specified for an update"))
    generation, before = int(meta.get("generation") or 0), int(old.get("generation") or 0)
    if generation < before:
        found.append(fields.invalid("metadata.generation", generation, "must not be decremented"))
    found += [
        fields.invalid(f"metadata.{key}", meta.get(key), "field is immutable")
        for key in _IMMUTABLE
        if meta.get(key) != old.get(key) and (meta.get(key) not in _ABSENT or old.get(key) not in _ABSENT)
    ]
    return found + objectmeta.validate_values(meta, whole=False)


def _unqualified_finalizers(meta: Object, resource: Resource, *, custom: bool) -> list[Cause]:
    if custom or resource.group in _FREE_FINALIZERS or (resource.group, resource.plural) == ("", "events"):
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        fields.invalid(f"metadata.finalizers[{index}]", name, text)
        for index, name in enumerate(objects.sequence(meta.get("finalizers")))
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def finalizer_warnings(obj: Object, old: Object | None = None) -> tuple[str, ...]:
    """Advice about finalizers that this write adds to a custom resource."""
    known = objects.finalizers(old) if old is not None else []
    found: list[str] = []
    for name in sorted(set(objects.finalizers(obj)) - set(known)):
        start = f"metadata.finalizers: {fields.quote(name)}: "
        found += [start + text for text in namerules.qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            found.append(
                f"{start}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other "
                "finalizer writers"
            )
    return tuple(found)


def unknown_fields(schema: Schema, value: Object) -> list[str]:
    """What strict decoding complains of: `unknown field "spec.foo"`. The value itself is not changed."""
    return [f"unknown field {fields.quote(path)}" for path in prune.prune(schema, objects.copy(value))]


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """Fields that a JSON body has twice: `duplicate field "spec.foo"`. `value` is the decoded body.

    Decoding twice is slow, so it is done only if the body has more keys than the value.
    """
    if body.count(b'":') == _count_keys(value):
        return []
    found: dict[str, None] = {}
    try:
        _report(json.loads(body, object_pairs_hook=_Pairs), "", found)
    except ValueError:
        return []
    return [f"duplicate field {fields.quote(path)}" for path in found]


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        return len(known) + sum(
            _count_keys(item) for item in known.values() if type(item) is dict or type(item) is list
        )
    if isinstance(value, list):
        return sum(_count_keys(item) for item in cast("list[Any]", value) if type(item) is dict or type(item) is list)
    return 0


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its pairs, also those whose key appears again."""


def _report(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            place = fields.child(path, key)
            if key in seen:
                found[place] = None
            seen.add(key)
            _report(item, place, found)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            _report(item, f"{path}[{index}]", found)


def strict_error(resource: Resource, complaints: list[str]) -> errors.BadRequest:
    """The answer to a write with fieldValidation=Strict that has unknown or duplicate fields."""
    listed = ", ".join(complaints)
    return errors.BadRequest(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"strict decoding error: {listed}"
    )

"""Strategies of the small kinds of the core group: Namespace, Secret, ConfigMap, Node, Pod, volumes, Lease."""

from __future__ import annotations

import base64
from typing import Any, Final, cast

import orjson

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import syntax, typechecks
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.strategies import metadata, network, podtemplates, quotas
from steelyard.kube.server.strategies.base import Strategy, default, immutable, spec

NAME_LABEL: Final = "kubernetes.io/metadata.name"
MAX_DATA: Final = 1024 * 1024
_IMMUTABLE_TEXT: Final = "field is immutable when `immutable` is set"
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NamespaceStrategy(Strategy):
    def prepare_create(self, obj: Object) -> None:
        """A name that the server makes up comes too late to be the client's label."""
        if not metadata.is_generated(objects.metadata(obj)):
            _label(obj)

    def complete_create(self, obj: Object) -> None:
        _label(obj)
        finalizers = cast("list[str]", spec(obj).setdefault("finalizers", []))
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Object, old: Object) -> None:
        """The finalizers of the spec change only by the finalize subresource."""
        _label(obj)
        obj["spec"] = objects.copy(objects.mapping(old.get("spec")))

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        if subresource == "status":
            obj["status"] = {"phase": "Active", **objects.mapping(obj.get("status"))}
        _label(obj)

    def validate_create(self, obj: Object) -> list[Cause]:
        return _validate_finalizers(obj, indexed=False)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        del obj, old
        return []

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "finalize":
            return _validate_finalizers(obj, indexed=True)
        phase = objects.at(obj, "status", "phase") or ""
        is_over = objects.is_being_deleted(obj)
        expected = "Terminating" if is_over else "Active"
        if phase == expected:
            return []
        text = f"may only be '{expected}' if `deletionTimestamp` is {'not empty' if is_over else 'empty'}"
        return [fields.invalid("status.Phase", phase, text)]


def _label(obj: Object) -> None:
    """Every namespace can be selected by its name."""
    name = objects.name(obj)
    if name:
        cast(Object, obj["metadata"])["labels"] = {**objects.labels(obj), NAME_LABEL: name}


def _validate_finalizers(obj: Object, *, indexed: bool) -> list[Cause]:
    found: list[Cause] = []
    for index, name in enumerate(cast("list[str]", objects.sequence(objects.at(obj, "spec", "finalizers")))):
        place = f"spec.finalizers[{index}]" if indexed else "spec.finalizers"
        found += [fields.invalid(place, name, text) for text in namerules.qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(fields.invalid(place, name, text))
    return found


class SecretStrategy(Strategy):
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        _empty_texts(obj, "data")
        texts = objects.mapping(obj.pop("stringData", None))
        if texts:
            data = objects.mapping(obj.get("data"))
            obj["data"] = data
            for key, text in texts.items():
                data[key] = base64.b64encode(str(text or "").encode()).decode()
        default(obj, "type", "Opaque")

    def validate_create(self, obj: Object) -> list[Cause]:
        data = objects.mapping(obj.get("data"))
        found = _validate_keys(data, "data")
        if sum(_decoded_size(value) for value in data.values()) > MAX_DATA:
            found.append(fields.too_long("data", MAX_DATA))
        return found + _SECRET_RULES.get(str(obj.get("type")), _anything)(obj, data)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found = immutable(obj, old, ("type",))
        return found + _validate_frozen(obj, old, "data") + self.validate_create(obj)

    def warnings(self, obj: Object, old: Object | None = None) -> tuple[str, ...]:
        """A pair of certificate and key that does not go together helps nobody, yet it is stored."""
        if obj.get("type") != "kubernetes.io/tls":
            return ()
        from steelyard.kube.server.strategies import keypairs

        data = objects.mapping(obj.get("data"))
        wrong = keypairs.problem(*(base64.b64decode(str(data.get(key) or "")) for key in ("tls.crt", "tls.key")))
        return (wrong,) if wrong else ()


def _anything(obj: Object, data: Object) -> list[Cause]:
    del obj, data
    return []


def _service_account_token(obj: Object, data: Object) -> list[Cause]:
    del data
    key = "kubernetes.io/service-account.name"
    return [] if objects.annotations(obj).get(key) else [fields.required(f"metadata.annotations[{key}]")]


def _json_under(key: str) -> Any:
    def rule(obj: Object, data: Object) -> list[Cause]:
        del obj
        if key not in data:
            return [fields.required(f"data[{key}]")]
        content = base64.b64decode(str(data[key]))
        budgets.check_values(content)
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError:
            wrong = syntax.problem(content)
        else:
            is_fine = value is None or isinstance(value, dict)
            what = f"{typechecks.describe(value)} into Go value of type map[string]interface {{}}"
            wrong = "" if is_fine else f"json: cannot unmarshal {what}"
        return [fields.invalid(f"data[{key}]", "<secret contents redacted>", wrong)] if wrong else []

    return rule


def _basic_auth(obj: Object, data: Object) -> list[Cause]:
    del obj
    if "username" in data or "password" in data:
        return []
    return [fields.required("data[username]"), fields.required("data[password]")]


def _all_of(*keys: str) -> Any:
    def rule(obj: Object, data: Object) -> list[Cause]:
        del obj
        return [fields.required(f"data[{key}]") for key in keys if key not in data]

    return rule


def _ssh_auth(obj: Object, data: Object) -> list[Cause]:
    del obj
    return [] if data.get("ssh-privatekey") else [fields.required("data[ssh-privatekey]")]


_SECRET_RULES: Final = {
    "kubernetes.io/service-account-token": _service_account_token,
    "kubernetes.io/dockercfg": _json_under(".dockercfg"),
    "kubernetes.io/dockerconfigjson": _json_under(".dockerconfigjson"),
    "kubernetes.io/basic-auth": _basic_auth,
    "kubernetes.io/ssh-auth": _ssh_auth,
    "kubernetes.io/tls": _all_of("tls.crt", "tls.key"),
}


class ConfigMapStrategy(Strategy):
    is_judged_by_schema = False
    holds_texts = True

    def prepare_create(self, obj: Object) -> None:
        _empty_texts(obj, "data")
        _empty_texts(obj, "binaryData")

    def validate_create(self, obj: Object) -> list[Cause]:
        data, binary = objects.mapping(obj.get("data")), objects.mapping(obj.get("binaryData"))
        found = _validate_keys(data, "data")
        found += [
            fields.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            for key in data
            if key in binary
        ]
        found += _validate_keys(binary, "binaryData")
        size = sum(len(str(value).encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
        if size > MAX_DATA:
            found.append(fields.too_long("[]", MAX_DATA))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _validate_frozen(obj, old, "data", "binaryData") + self.validate_create(obj)


def _empty_texts(obj: Object, key: str) -> None:
    """Reads a null as an empty value, as Go does."""
    data = objects.mapping(obj.get(key))
    for name, value in data.items():
        if value is None:
            data[name] = ""


def _validate_keys(data: Object, path: str) -> list[Cause]:
    return [fields.invalid(f"{path}[{key}]", key, text) for key in data for text in namerules.config_key(key)]


def _validate_frozen(obj: Object, old: Object, *parts: str) -> list[Cause]:
    if old.get("immutable") is not True:
        return []
    found = [] if obj.get("immutable") is True else [fields.forbidden("immutable", _IMMUTABLE_TEXT)]
    changed = [part for part in parts if (obj.get(part) or {}) != (old.get(part) or {})]
    return found + [fields.forbidden(part, _IMMUTABLE_TEXT) for part in changed]


def _decoded_size(value: Any) -> int:
    text = str(value)
    return len(text) * 3 // 4 - text[-2:].count("=")


class NodeStrategy(Strategy):
    keeps_status = True
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        target, status = objects.mapping(obj.get("spec")), objects.mapping(obj.get("status"))
        first, ranges = target.get("podCIDR"), objects.sequence(target.get("podCIDRs"))
        if first and (not ranges or ranges[0] != first):
            target["podCIDRs"] = [first]
        elif ranges and not first:
            target["podCIDR"] = ranges[0]
        if status.get("capacity") and "allocatable" not in status:
            status["allocatable"] = {**objects.mapping(status["capacity"])}

    def validate_create(self, obj: Object) -> list[Cause]:
        found = _validate_taints(obj) + _validate_resources(obj)
        ranges = objects.sequence(objects.at(obj, "spec", "podCIDRs"))
        for index, text in enumerate(ranges):
            found += network.cidr(text, f"spec.podCIDRs[{index}]")
        versions = [each.version for each in map(network.parsed_range, ranges) if each is not None]
        if len(ranges) > 1 and sorted(versions) != [4, 6]:
            text = "may specify no more than one CIDR for each IP family"
            found.append(fields.invalid("spec.podCIDRs", ranges, text))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate_create(obj) + _validate_node_change(obj, old)

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        return _validate_node_change(obj, old)


def _validate_node_change(obj: Object, old: Object) -> list[Cause]:
    found = _validate_resources(obj)
    seen: list[Object] = []
    addresses = map(objects.mapping, objects.sequence(objects.at(obj, "status", "addresses")))
    for index, address in enumerate(addresses):
        if address in seen:
            shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
            found.append(fields.duplicate(f"status.addresses[{index}]", fields.Ordered(shown)))
        seen.append(address)
    ranges = objects.at(old, "spec", "podCIDRs")
    if ranges and objects.at(obj, "spec", "podCIDRs") != ranges:
        text = 'node updates may not change podCIDR except from "" to valid'
        found.append(fields.forbidden("spec.podCIDRs", text))
    provider = objects.at(old, "spec", "providerID")
    if provider and objects.at(obj, "spec", "providerID") != provider:
        text = 'node updates may not change providerID except from "" to valid'
        found.append(fields.forbidden("spec.providerID", text))
    return found + _validate_taints(obj)


def _validate_taints(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(map(objects.mapping, objects.sequence(objects.at(obj, "spec", "taints")))):
        place = f"metadata.taints[{index}]"
        key, value, effect = str(taint.get("key") or ""), str(taint.get("value") or ""), taint.get("effect")
        found += [fields.invalid(f"{place}.key", key, text) for text in namerules.qualified_name(key)]
        if wrong := namerules.label_value(value):
            found.append(fields.invalid(f"{place}.value", value, ";".join(wrong)))
        if not effect:
            found.append(fields.required(f"{place}.effect"))
        elif effect not in _TAINT_EFFECTS:
            found.append(fields.not_supported(f"{place}.effect", effect, _TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = f"{fields.show(fields.Ordered(shown))}: taints must be unique by key and effect pair"
            found.append(Cause(place, "FieldValueDuplicate", f"Duplicate value: {text}"))
        seen.add((key, effect))
    return found


def _validate_resources(obj: Object) -> list[Cause]:
    return [
        cause
        for part in ("capacity", "allocatable")
        for cause in quotas.amounts(objects.mapping(objects.at(obj, "status", part)), f"status.{part}")
    ]


class PodStrategy(Strategy):
    tracks_generation = True

    def prepare_create(self, obj: Object) -> None:
        podtemplates.set_defaults(spec(obj))
        default(spec(obj), "enableServiceLinks", True)
        obj["status"] = {"phase": "Pending"}

    def prepare_update(self, obj: Object, old: Object) -> None:
        del old
        podtemplates.set_defaults(spec(obj))

    def validate_create(self, obj: Object) -> list[Cause]:
        return podtemplates.validate(objects.mapping(obj.get("spec")), "spec")


class ServiceAccountStrategy(Strategy):
    """Nothing of its own: tokens are asked for, and no longer kept in Secrets."""


class PendingStrategy(Strategy):
    """Volumes and claims, which begin as pending."""

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        default(spec(obj), "volumeMode", "Filesystem")

    def prepare_update(self, obj: Object, old: Object) -> None:
        del old
        default(spec(obj), "volumeMode", "Filesystem")


class LeaseStrategy(Strategy):
    is_judged_by_schema = False
    creates_on_update = True

    def validate_create(self, obj: Object) -> list[Cause]:
        found: list[Cause] = []
        duration = objects.at(obj, "spec", "leaseDurationSeconds")
        if isinstance(duration, int) and duration <= 0:
            found.append(fields.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        transitions = objects.at(obj, "spec", "leaseTransitions")
        if isinstance(transitions, int) and transitions < 0:
            text = "must be greater than or equal to 0"
            found.append(fields.invalid("spec.leaseTransitions", transitions, text))
        return found

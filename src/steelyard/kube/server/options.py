"""Query parameters and DeleteOptions, decoded and checked once, before a verb looks at anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from steelyard.kube import errors, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server import decoding

FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]

_MAX_MANAGER = 128
_FIELD_VALIDATION = ("Ignore", "Warn", "Strict")
_DELETE_OPTIONS = Resource("meta.k8s.io", "v1", "", "DeleteOptions")
_PROPAGATION = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    manager: str = ""
    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    uid: str = ""
    resource_version: str = ""
    propagation: Propagation = ""
    dry_run: bool = False
    is_told_not_to_orphan: bool = False
    """By `orphanDependents: false`, which is answered with another code than `Background`."""


_PLAIN_WRITE = WriteOptions("unknown")


def write_options(options: Mapping[str, str], kind: str = "CreateOptions", *, patch: str = "") -> WriteOptions:
    """`patch` is the patch type; server-side apply must name its manager, and only it may force."""
    if not options and patch != "apply":
        return _PLAIN_WRITE
    manager = options.get("fieldManager", "")
    causes: list[Cause] = []
    if len(manager) > _MAX_MANAGER:
        causes.append(
            Cause("fieldManager", "FieldValueTooLong", f"Too long: may not be more than {_MAX_MANAGER} bytes")
        )
    elif manager and not manager.isprintable():
        causes.append(
            Cause(
                "fieldManager",
                "FieldValueInvalid",
                f'Invalid value: "{manager}": should only contain printable characters',
            )
        )
    if patch == "apply" and not manager:
        causes.append(Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch"))
    if patch and patch != "apply" and "force" in options:
        causes.append(Cause("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch"))
    validation = options.get("fieldValidation") or "Warn"
    if validation not in _FIELD_VALIDATION:
        causes.append(_unsupported("fieldValidation", validation, ("", *sorted(_FIELD_VALIDATION))))
    dry_run = _dry_run(options.get("dryRun", ""), causes)
    if causes:
        raise errors.invalid("meta.k8s.io", kind, "", causes)
    return WriteOptions(
        manager or manager_of(options.get("userAgent", "")),
        dry_run,
        cast(FieldValidation, validation),
        flag(options, "force"),
    )


def manager_of(user_agent: str) -> str:
    """The field manager of a client that names none: its program, so that `kubectl/v1.34 (linux)` is `kubectl`."""
    return (user_agent.partition("/")[0])[:_MAX_MANAGER] or "unknown"


def delete_options(options: Mapping[str, str], body: Any) -> DeleteOptions:
    """From the body if there is one, else from the query, as upstream decides it."""
    if body is None:
        given: Object = {
            key: options[key] for key in ("propagationPolicy", "dryRun", "orphanDependents") if key in options
        }
        integer(options, "gracePeriodSeconds")
        if "orphanDependents" in given:
            given["orphanDependents"] = flag(options, "orphanDependents")
        if "dryRun" in given:
            given["dryRun"] = [given["dryRun"]]
    elif isinstance(body, dict):
        given = cast(Object, body)
        kind, version = given.get("kind") or "DeleteOptions", given.get("apiVersion") or "v1"
        if kind != "DeleteOptions":
            raise errors.BadRequest(f'no kind "{kind}" is registered for version "{version}" in scheme "DeleteOptions"')
        refusal = decoding.check(_DELETE_OPTIONS, given)
        if refusal is not None:
            raise refusal
    else:
        raise errors.BadRequest("couldn't decode DeleteOptions: the body is not a JSON object")
    causes: list[Cause] = []
    policy = given.get("propagationPolicy") or ""
    orphan = given.get("orphanDependents")
    if policy and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(Cause("propagationPolicy", "FieldValueInvalid", f'Invalid value: "{policy}": {text}'))
    if policy and policy not in _PROPAGATION:
        causes.append(_unsupported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    given_dry_run = given.get("dryRun")
    dry_run = False
    for value in objects.sequence(given_dry_run) if not isinstance(given_dry_run, str) else [given_dry_run]:
        dry_run = _dry_run(str(value), causes) or dry_run
    if causes:
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", causes)
    if orphan is not None and not policy:
        policy = "Orphan" if orphan else "Background"
    preconditions = objects.mapping(given.get("preconditions"))
    return DeleteOptions(
        str(preconditions.get("uid") or ""),
        str(preconditions.get("resourceVersion") or ""),
        cast(Propagation, policy),
        dry_run or options.get("dryRun") == "All",
        orphan is False,
    )


def flag(options: Mapping[str, str], name: str) -> bool:
    """Present and neither `false` nor `0`, as Kubernetes reads a boolean parameter."""
    return name in options and options[name].lower() not in {"", "false", "0"}


def integer(options: Mapping[str, str], name: str) -> int:
    value = options.get(name, "")
    if not value:
        return 0
    try:
        number = int(value)
    except ValueError:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None
    if not -(2**63) <= number < 2**63:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{value}": value out of range')
    return number


def revision(value: str) -> int:
    """A resourceVersion as a number; 0 where none is given."""
    if not value:
        return 0
    is_number = value.isascii() and value.isdigit()
    if not is_number or len(value) > 19:
        why = "value out of range" if is_number else "invalid syntax"
        problem = f'resourceVersion: Invalid value: "{value}": strconv.ParseUint: parsing "{value}": {why}'
        raise errors.BadRequest(f"invalid resource version: {problem}")
    return int(value)


def _dry_run(value: str, causes: list[Cause]) -> bool:
    if value and value != "All":
        message = f'Unsupported value: ["{value}"]: supported values: "All"'
        causes.append(Cause("dryRun", "FieldValueNotSupported", message))
    return bool(value)


def _unsupported(field: str, value: Any, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{each}"' for each in supported)
    return Cause(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')

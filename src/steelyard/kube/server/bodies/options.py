"""Query parameters and DeleteOptions, decoded and checked once, before a verb looks at anything else."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, cast

from steelyard.frozen import frozen
from steelyard.kube import errors, fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import decoding, typechecks

FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]

_MAX_MANAGER = 128
_WORTH_REMEMBERING = 1024
"""Characters of options that are not read again every time."""
_FIELD_VALIDATION = ("Ignore", "Warn", "Strict")
_PROPAGATION = ("Background", "Foreground", "Orphan")


@frozen
class WriteOptions:
    manager: str = ""
    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    force: bool = False


@frozen
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
    if sum(map(len, options)) + sum(map(len, options.values())) > _WORTH_REMEMBERING:
        return _read_write_options(options, kind, patch)
    return _write_options(tuple(options.items()), kind, patch)


@functools.lru_cache(maxsize=256)
def _write_options(given: tuple[tuple[str, str], ...], kind: str, patch: str) -> WriteOptions:
    """Clients send the same ones over and over."""
    return _read_write_options(dict(given), kind, patch)


def _read_write_options(options: Mapping[str, str], kind: str, patch: str) -> WriteOptions:
    manager = options.get("fieldManager", "")
    causes: list[Cause] = []
    if patch == "apply" and not manager:
        causes.append(fields.required("fieldManager", "is required for apply patch"))
    if patch and patch != "apply" and "force" in options:
        causes.append(fields.forbidden("force", "may not be specified for non-apply patch"))
    if len(manager.encode()) > _MAX_MANAGER:
        causes.append(fields.too_long("fieldManager", _MAX_MANAGER))
    causes += (
        fields.invalid("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {place})")
        for place, char in enumerate(manager)
        if not char.isprintable()
    )
    dry_run = _dry_run(options["dryRun"].split("\n") if "dryRun" in options else [], causes)
    validation = options.get("fieldValidation") or "Warn"
    if validation not in _FIELD_VALIDATION:
        causes.append(fields.not_supported("fieldValidation", validation, ("", *sorted(_FIELD_VALIDATION))))
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
        integer(options, "gracePeriodSeconds")
        given: Object = {key: options[key] for key in ("propagationPolicy",) if key in options}
        if "orphanDependents" in options:
            given["orphanDependents"] = flag(options, "orphanDependents")
        if "dryRun" in options:
            given["dryRun"] = options["dryRun"].split("\n")
    else:
        given = _given(body)
    causes: list[Cause] = []
    policy = given.get("propagationPolicy") or ""
    orphan = given.get("orphanDependents")
    if policy and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(fields.invalid("propagationPolicy", policy, text))
    if policy and policy not in _PROPAGATION:
        causes.append(fields.not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    dry_run = _dry_run(objects.sequence(given.get("dryRun")), causes)
    if causes:
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", causes)
    if orphan is not None and not policy:
        policy = "Orphan" if orphan else "Background"
    preconditions = objects.mapping(given.get("preconditions"))
    return DeleteOptions(
        str(preconditions.get("uid") or ""),
        str(preconditions.get("resourceVersion") or ""),
        cast(Propagation, policy),
        dry_run,
        orphan is False,
    )


def _given(body: Any) -> Object:
    """DeleteOptions from a body; those of any group will do."""
    try:
        group, version, kind = decoding.interpret(body)
    except decoding.Undecodable as error:
        raise errors.BadRequest(error.reason) from None
    if kind not in ("", "DeleteOptions"):
        raise errors.BadRequest(decoding.unregistered(group, version, kind))
    if problem := typechecks.problem("meta/v1.DeleteOptions", body):
        raise errors.BadRequest(problem)
    return cast(Object, body or {})


def flag(options: Mapping[str, str], name: str) -> bool:
    """Present and neither `false` nor `0`, as Kubernetes reads a boolean parameter."""
    return name in options and options[name].lower() not in {"false", "0"}


def integer(options: Mapping[str, str], name: str) -> int:
    """0 where it is not given. Raises BadRequest."""
    value = options.get(name)
    if value is None:
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
    if problem := unsigned_problem(value):
        raise errors.BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{value}": {problem}')
    return int(value)


def is_revision(value: str) -> bool:
    return bool(value) and not unsigned_problem(value) and int(value) > 0


def unsigned_problem(value: str) -> str:
    """Why a text is no revision, in Go's words; empty if it is one."""
    is_number = value.isascii() and value.isdigit()
    if is_number and len(value) <= 19:
        return ""
    why = "value out of range" if is_number else "invalid syntax"
    return f"strconv.ParseUint: parsing {fields.quote(value)}: {why}"


def _dry_run(values: list[Any], causes: list[Cause]) -> bool:
    """Whether nothing is to be stored. All values must be All, which is the only one there is."""
    if any(value != "All" for value in values):
        causes.append(fields.not_supported("dryRun", values, ("All",)))
    return bool(values)

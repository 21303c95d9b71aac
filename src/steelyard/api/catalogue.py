"""The versions of Kubernetes that one platform offers, out of those that `versions.py` lets pass, and who judges them.

A listing says of each version, or of all patches of a minor one, how it stands. The same reading is there twice: in
Python, for the command line and the platform file, and as admission policies, for any API server. A claim that is
stored is not judged again: only a version that is new in it, or another than before.

Whether a version has ended is what the listing says, and not what a date makes of it. Neither CEL nor composition has a
clock, and a claim must not be refused on one day for what was fine the day before without anybody's having changed
something. The date is there to be told to people; `steelyard doctor`, which has a clock, says when a listing is behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from steelyard.api import resources, versions
from steelyard.api.policies import POLICIES, constraints
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

State: TypeAlias = Literal["offered", "ended", "refused"]
UNKNOWN: Final = ""

FIELDS: Final = {"kubernetesVersion": "kubernetes-versions", "k8sVersion": "k8s-versions"}
"""Parameters of claims that name a version, each with what the policies for it are called."""
_INFRASTRUCTURE: Final = "spec.parameters.infrastructure"
_NOT_LISTED: Final = " is not offered on "
_REFUSED: Final = " is refused by this platform on "
_ENDED: Final = " gets no more fixes, and this platform refuses that on "
_NEAREST: Final = "; the nearest is "
_WARNED: Final = " gets no more fixes"


@frozen
class Listing:
    """What one infrastructure offers."""

    states: Mapping[str, State]
    """By version, `v1.32.1`, or by minor version, `v1.32`, for all its patches; the longer name goes first."""
    refuses_ended: bool = False

    def state(self, version: str) -> State | Literal[""]:
        """How a version stands; empty where it is not listed."""
        name = versions.canonical(version)
        return self.states.get(name) or self.states.get(minor_of(name)) or UNKNOWN

    def usable(self) -> list[str]:
        """The versions to suggest, the newest first; of a minor one without a patch, its first."""
        found = [
            name if name.count(".") == 2 else f"{name}.0"
            for name, state in self.states.items()
            if state == "offered" or (state == "ended" and not self.refuses_ended)
        ]
        return sorted(dict.fromkeys(found), key=versions.parsed, reverse=True)

    def nearest(self, version: str) -> str:
        """The one that is fewest steps away, and the newer one of two; empty where there is none at all."""
        return min(self.usable(), key=lambda each: abs(_number(each) - _number(version)), default="")

    def problem(self, infrastructure: str, version: str) -> str:
        """Why a claim cannot have the version, and which is nearest; empty if it can."""
        words = {UNKNOWN: _NOT_LISTED, "refused": _REFUSED} | ({"ended": _ENDED} if self.refuses_ended else {})
        reason = words.get(self.state(version))
        if reason is None:
            return ""
        return f"{versions.canonical(version)}{reason}{infrastructure}{_NEAREST}{self.nearest(version)}"


def minor_of(version: str) -> str:
    """
    >>> minor_of("v1.32.1")
    'v1.32'
    """
    return ".".join(version.split(".")[:2])


def refusing(
    domain: str, claims: Sequence[Resource], listings: Mapping[str, Listing], default: str, field: str
) -> Object:
    """A policy against versions that are not listed, or refused. `default` is the infrastructure of claims that name
    none; one without a listing is not restricted. `field` is the parameter that names the version.
    """
    refused = "variables.state == '' || variables.state == 'refused'"
    if any(each.refuses_ended for each in listings.values()):
        refused += " || variables.state == 'ended'"
    return _policy(
        FIELDS[field],
        domain,
        claims,
        field,
        _variables(listings, default, field),
        f"!variables.isNew || !variables.isListed || !({refused})",
        f"'{_at(field)}: ' + variables.version + (variables.state == '' ? '{_NOT_LISTED}' : "
        f"variables.state == 'refused' ? '{_REFUSED}' : '{_ENDED}') + variables.infrastructure + "
        f"'{_NEAREST}' + variables.nearest",
    )


def warning(
    domain: str, claims: Sequence[Resource], listings: Mapping[str, Listing], default: str, field: str
) -> Object:
    """A policy that only warns, of versions that have ended."""
    return _policy(
        f"ended-{FIELDS[field]}",
        domain,
        claims,
        field,
        _variables(listings, default, field),
        "!variables.isNew || !variables.isListed || variables.state != 'ended'",
        f"'{_at(field)}: Kubernetes ' + variables.version + '{_WARNED}; choose a newer version'",
    )


def _at(field: str) -> str:
    return f"spec.parameters.{field}"


def _policy(
    name: str,
    domain: str,
    claims: Sequence[Resource],
    field: str,
    variables: Mapping[str, str],
    expression: str,
    message: str,
) -> Object:
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": f"{name}.{resources.compute_group(domain)}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(claims),
            "matchConditions": [
                {"name": "has-version", "expression": f"has(object.{_at(field)})"},
                # What is no version at all, the definition refuses.
                {"name": "is-version", "expression": f"object.{_at(field)}.matches('{versions.PATTERN}')"},
            ],
            "variables": [{"name": each, "expression": text} for each, text in variables.items()],
            "validations": [{"expression": expression, "reason": "Invalid", "messageExpression": message}],
        },
    }


def _variables(listings: Mapping[str, Listing], default: str, field: str) -> dict[str, str]:
    asked = _at(field)
    states = {
        name: "{" + ", ".join(f"'{version}': '{state}'" for version, state in each.states.items()) + "}"
        for name, each in listings.items()
    }
    names = {
        name: "[" + ", ".join(f"'{version}'" for version in each.usable()) + "]" for name, each in listings.items()
    }
    numbers = {
        name: "[" + ", ".join(str(_number(version)) for version in each.usable()) + "]"
        for name, each in listings.items()
    }
    here = "[variables.infrastructure]"
    return {
        "infrastructure": f"has(object.{_INFRASTRUCTURE}) ? object.{_INFRASTRUCTURE} : '{default}'",
        "version": f"object.{asked}.startsWith('v') ? object.{asked} : 'v' + object.{asked}",
        "isNew": f"oldObject == null || !has(oldObject.{asked}) || oldObject.{asked} != object.{asked}",
        "parts": "variables.version.split('.')",
        "minor": "variables.parts[0] + '.' + variables.parts[1]",
        "states": _map(states),
        "isListed": "variables.infrastructure in variables.states",
        "state": f"variables.version in variables.states{here} ? variables.states{here}[variables.version] : "
        f"variables.minor in variables.states{here} ? variables.states{here}[variables.minor] : ''",
        "number": "int(variables.parts[1]) * 1000 + int(variables.parts[2])",
        "names": _map(names),
        "distances": f"{_map(numbers)}{here}.map(each, each > variables.number ? each - variables.number : "
        "variables.number - each)",
        "nearest": f"variables.names{here}[variables.distances.indexOf(variables.distances.min())]",
    }


def _map(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"'{name}': {value}" for name, value in entries.items()) + "}"


def _number(version: str) -> int:
    """For comparing: a patch is a small step and a minor version a large one."""
    _, minor, patch = versions.parsed(version)
    return minor * 1000 + patch

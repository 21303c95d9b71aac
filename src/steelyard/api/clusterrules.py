"""CEL rules over several fields of a claim for a cluster, for the definition of every kind that has `ClusterFields`.

What a cluster has once been made with stays: its infrastructure, its ranges and its endpoint, since nothing inside it
could follow a change. As in `admission.py`, a claim that is stored is not locked out.
"""

from __future__ import annotations

from typing import Any, Final

_PARAMETERS: Final = "spec.parameters"
_USED: Final = "status.parameters"
_LABEL: Final = 63

APART: Final[dict[str, Any]] = {
    "rule": "!has(self.podCidr) || !has(self.serviceCidr) || !isCIDR(self.podCidr) || !isCIDR(self.serviceCidr) || "
    "!(cidr(self.podCidr).containsIP(cidr(self.serviceCidr).ip()) || "
    "cidr(self.serviceCidr).containsIP(cidr(self.podCidr).ip()))",
    "message": "podCidr and serviceCidr overlap: an address would be both a pod's and a Service's; choose ranges that "
    "have none in common",
    "fieldPath": ".podCidr",
}
"""For `spec.parameters`."""


def stays(field: str, what: str) -> dict[str, Any]:
    """For the whole object: the field may say nothing but what the status reports."""
    now, before, used = f"self.{_PARAMETERS}.{field}", f"oldSelf.{_PARAMETERS}.{field}", f"oldSelf.{_USED}.{field}"
    return {
        "rule": f"!has({now}) || (has({before}) && {before} == {now}) || {_not_reported(field)} || {now} == {used}",
        "messageExpression": f"'{what} ' + {used} + ', which cannot become another: put that back, or leave the field "
        "out, and make a claim of another name for ' + " + now,
        "fieldPath": f".{_PARAMETERS}.{field}",
    }


def grows(field: str, number: str = "{}") -> dict[str, Any]:
    """For the whole object: a root disk. `number` is CEL that makes a number of the field where it is a text."""
    now, before, used = f"self.{_PARAMETERS}.{field}", f"oldSelf.{_PARAMETERS}.{field}", f"oldSelf.{_USED}.{field}"
    return {
        "rule": f"!has({now}) || (has({before}) && {before} == {now}) || {_not_reported(field)} || "
        f"{number.format(now)} >= {number.format(used)}",
        "message": "disks do not shrink: leave it as it was (status.parameters says what is used), or ask for more; "
        "for smaller ones make a claim of another name",
        "fieldPath": f".{_PARAMETERS}.{field}",
    }


def _not_reported(field: str) -> str:
    return f"!has(oldSelf.status) || !has(oldSelf.{_USED}) || !has(oldSelf.{_USED}.{field})"


def _once_made(path: str, message: str) -> dict[str, Any]:
    """For the whole object: what a cluster was made with, which may be said, changed or taken out before that only.
    `path` may lead through objects that are not there."""
    parents = path.split(".")[:-1]
    reached = [".".join(parents[: count + 1]) for count in range(len(parents)) if parents[count] not in _ALWAYS]

    def has(who: str) -> str:
        return "(" + " && ".join(f"has({who}.{each})" for each in (*reached, path)) + ")"

    return {
        "rule": "!has(oldSelf.status) || !has(oldSelf.status.clusterRef) || "
        f"({has('self')} ? {has('oldSelf')} && self.{path} == oldSelf.{path} : !{has('oldSelf')})",
        "message": message,
        "fieldPath": f".{path}",
    }


_ALWAYS: Final = ("spec", "parameters")
_ENDPOINT_STAYS: Final = _once_made(
    f"{_PARAMETERS}.apiEndpoint",
    "the address of a cluster's API is in its certificates and kubeconfigs, and cannot be set, changed or taken out "
    "later: leave it as it was, or make a claim of another name",
)
_DOMAIN_STAYS: Final = _once_made(
    f"{_PARAMETERS}.nodeSettings.clusterDomain",
    "the domain of a cluster is in its certificates and in the names that its pods use, and cannot be set, changed or "
    "taken out later: leave it as it was, or make a claim of another name",
)
_POOL_NAMES: Final[dict[str, Any]] = {
    "rule": f"!has(self.{_PARAMETERS}.nodePools) || self.{_PARAMETERS}.nodePools.all(each, "
    f"size(self.metadata.name) + size('-md-') + size(each.name) <= {_LABEL})",
    "message": f"<claim>-md-<pool> must fit into a label, which holds {_LABEL} characters: shorten the names of pools",
    "fieldPath": f".{_PARAMETERS}.nodePools",
}


WHOLE: Final[tuple[dict[str, Any], ...]] = (
    stays("infrastructure", "the machines of the cluster are of"),
    stays("podCidr", "the pods of the cluster are in"),
    stays("serviceCidr", "the Services of the cluster are in"),
    _ENDPOINT_STAYS,
    _DOMAIN_STAYS,
    _POOL_NAMES,
)
"""For the whole object, of every kind."""

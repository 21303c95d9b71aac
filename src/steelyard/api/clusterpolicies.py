"""What an API server refuses in a claim for a cluster because of the platform file, or of who asks: a policy.

Ranges that are reserved or another's, an address for the API where the infrastructure gives none, too little memory for
kubeadm; labels that a kubelet may not set; what revision v1 knows nothing of; and a ttl by somebody who may not delete
the claim. Judged when a claim is
created and when the field changes, never again: another platform file locks nobody out. The same sentences are used
where composition refuses (`compose/cluster/fields.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from steelyard.api import resources
from steelyard.api.claims import COMPOSITION_REVISION as REVISION
from steelyard.api.clusterfields import LABEL_KEY, SINCE_V2, ClusterFields
from steelyard.api.policies import POLICIES, constraints
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

LABEL_MAX: Final = 63
ENDPOINT: Final = "spec.parameters.apiEndpoint"
POOLS: Final = "spec.parameters.nodePools"
SETTINGS: Final = "spec.parameters.nodeSettings"
PLUGIN: Final = "spec.parameters.networkPlugin"

_PODS: Final = "spec.parameters.podCidr"
_SERVICES: Final = "spec.parameters.serviceCidr"
_TTL: Final = "spec.parameters.ttl"
_INFRASTRUCTURE: Final = "spec.parameters.infrastructure"
_OF_KUBERNETES: Final = r"^([^/]*[.])?(kubernetes[.]io|k8s[.]io)/"
_ALLOWED: Final = r"^(([^/]*[.])?(node|kubelet)[.]kubernetes[.]io/|topology[.]kubernetes[.]io/(zone|region)$)"
"""What a kubelet may set of those: the admission plugin NodeRestriction keeps the others from it."""
_KEY_MAX: Final = 317


def no_endpoint(infrastructure: str) -> str:
    return (
        f"the address of a cluster's API cannot be chosen on {infrastructure}; leave it out, or choose another "
        "spec.parameters.infrastructure"
    )


def not_granted(host: str, namespace: str) -> str:
    return (
        f"{host} is not for claims in {namespace} to name, since it may be the address of another cluster; ask the "
        "platform's administrators to grant it (networks.apiEndpoints in the platform file), or leave the field out"
    )


def no_settings(infrastructure: str) -> str:
    return (
        f"machines of {infrastructure} have no such settings; leave it out, or choose another "
        "spec.parameters.infrastructure"
    )


def no_plugin(plugin: str, infrastructure: str) -> str:
    return f"machines of {infrastructure} do not have {plugin}; choose another, or leave the field out"


def too_little_memory(least: int) -> str:
    return f"but kubeadm needs {least} on this infrastructure; ask for {least} or more"


def label_problem(key: str) -> str:
    if len(key) > _KEY_MAX or not re.match(LABEL_KEY, key):
        return _NO_KEY
    return _NOT_THEIRS if re.match(_OF_KUBERNETES, key) and not re.match(_ALLOWED, key) else ""


_NO_KEY: Final = "write a label as in example.com/gpu"
_NOT_THEIRS: Final = "labels of kubernetes.io and k8s.io are not a machine's to set; use a domain of your own"


def limits(
    domain: str,
    claims: Sequence[Resource],
    *,
    default: str,
    without_endpoint: Sequence[str],
    without_settings: Sequence[str],
    without_plugin: Mapping[str, Sequence[str]],
    hosts: Mapping[str, Sequence[str]],
    reserved: Sequence[str],
    shared: Mapping[str, str],
    memory: Mapping[str, int],
    machines: Mapping[str, Sequence[str]],
) -> Object:
    """`default` is the infrastructure of claims that name none; `without_endpoint` are those on which an endpoint
    cannot be chosen, `without_settings` those whose machines have none, `without_plugin` those whose machines do not
    have a network plugin, and `hosts` are what claims of a namespace, or of any (`*`), may name on others; `shared` has
    the range of pods or services where all clusters have the same; `memory` the least GiB of a control-plane machine by
    infrastructure, and `machines` the ranges in which machines have their addresses.
    """
    rules = [
        *(_not_reserved(field, reserved) for field in (_PODS, _SERVICES) if reserved),
        *(
            _not_of_machines(field, name, ranges)
            for field in (_PODS, _SERVICES)
            for name, ranges in machines.items()
            if ranges
        ),
        *(_apart(field, shared[what]) for field, what in ((_PODS, "services"), (_SERVICES, "pods")) if what in shared),
        *([_not_on(ENDPOINT, without_endpoint, no_endpoint)] if without_endpoint else []),
        *([_not_on(SETTINGS, without_settings, no_settings)] if without_settings else []),
        *(_plugin(plugin, without) for plugin, without in without_plugin.items() if without),
        _granted_endpoint(without_endpoint, hosts),
        *([_memory(memory)] if memory else []),
        _LABELS,
        _since_v2(),
        _MAY_DELETE,
    ]
    infrastructure = f"has(object.{_INFRASTRUCTURE}) ? string(object.{_INFRASTRUCTURE}) : '{default}'"
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": f"cluster-limits.{resources.compute_group(domain)}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(claims),
            "matchConditions": [{"name": "has-parameters", "expression": "has(object.spec.parameters)"}],
            "variables": [{"name": "infrastructure", "expression": infrastructure}],
            "validations": rules,
        },
    }


def _is_new(field: str) -> str:
    is_another = f"oldObject == null || !has(oldObject.{field}) || oldObject.{field} != object.{field}"
    return f"(has(object.{field}) && ({is_another}))"


def _overlap(field: str, other: str) -> str:
    """`other` is CEL for a range, of the same family of addresses or not."""
    return (
        f"(cidr(object.{field}).containsIP(cidr({other}).ip()) || cidr({other}).containsIP(cidr(object.{field}).ip()))"
    )


def _validation(expression: str, message: str, reason: str = "Invalid") -> Object:
    return {"expression": expression, "reason": reason, "messageExpression": message}


def _not_reserved(field: str, reserved: Sequence[str]) -> Object:
    listed = ", ".join(f"'{each}'" for each in reserved)
    found = f"[{listed}].filter(each, {_overlap(field, 'each')})"
    return _validation(
        f"!{_is_new(field)} || !isCIDR(object.{field}) || size({found}) == 0",
        f"'{field}: ' + object.{field} + ' overlaps with ' + {found}[0] + ', which the platform file reserves "
        "(networks.reserved); choose another range, or leave the field out'",
    )


def _not_of_machines(field: str, infrastructure: str, ranges: Sequence[str]) -> Object:
    listed = ", ".join(f"'{each}'" for each in ranges)
    found = f"[{listed}].filter(each, {_overlap(field, 'each')})"
    return _validation(
        f"!{_is_new(field)} || variables.infrastructure != '{infrastructure}' || !isCIDR(object.{field}) || "
        f"size({found}) == 0",
        f"'{field}: ' + object.{field} + ' overlaps with ' + {found}[0] + ', where the machines of such clusters have "
        "their addresses; choose another range, or leave the field out'",
    )


def _apart(field: str, shared: str) -> Object:
    other = _SERVICES if field == _PODS else _PODS
    what = "Services" if field == _PODS else "pods"
    overlaps = _overlap(field, f"'{shared}'")
    return _validation(
        f"!{_is_new(field)} || has(object.{other}) || !isCIDR(object.{field}) || !{overlaps}",
        f"'{field}: ' + object.{field} + ' overlaps with {shared}, which the {what} of the cluster have; choose "
        "another range, or leave the field out, or set both'",
    )


def _not_on(field: str, without: Sequence[str], words: Callable[[str], str]) -> Object:
    listed = ", ".join(f"'{each}'" for each in without)
    before, _, after = words("\0").partition("\0")
    return _validation(
        f"!{_is_new(field)} || !(variables.infrastructure in [{listed}])",
        f"'{field}: {_quoted(before)}' + variables.infrastructure + '{_quoted(after)}'",
    )


def _plugin(plugin: str, without: Sequence[str]) -> Object:
    listed = ", ".join(f"'{each}'" for each in without)
    before, _, after = no_plugin(plugin, "\0").partition("\0")
    return _validation(
        f"!{_is_new(PLUGIN)} || object.{PLUGIN} != '{plugin}' || !(variables.infrastructure in [{listed}])",
        f"'{PLUGIN}: {_quoted(before)}' + variables.infrastructure + '{_quoted(after)}'",
    )


def _granted_endpoint(without: Sequence[str], hosts: Mapping[str, Sequence[str]]) -> Object:
    host = f"object.{ENDPOINT}.substring(0, object.{ENDPOINT}.lastIndexOf(':'))"
    granted = [
        (f"request.namespace == '{source}' && " if source != "*" else "")
        + (f"{host}.endsWith('{each[1:]}')" if each.startswith("*") else f"{host} == '{each}'")
        for source, known in sorted(hosts.items())
        for each in known
    ]
    listed = ", ".join(f"'{each}'" for each in without)
    before, between, after = not_granted("\0", "\1").replace("\1", "\0").split("\0")
    return _validation(
        f"!{_is_new(ENDPOINT)} || variables.infrastructure in [{listed}] || {' || '.join(granted) or 'false'}",
        f"'{ENDPOINT}: {_quoted(before)}' + {host} + '{_quoted(between)}' + request.namespace + '{_quoted(after)}'",
        "Forbidden",
    )


def _memory(least: Mapping[str, int]) -> Object:
    """Of whichever field the kind has. What the environment says instead is known to composition."""
    known = ", ".join(f"'{name}': {amount}" for name, amount in least.items())
    number, text = "spec.parameters.memoryGi", "spec.parameters.controlPlaneMemory"
    asked = (
        f"({_is_new(number)} ? int(object.{number}) : {_is_new(text)} && object.{text}.matches('^[0-9]+Gi$') ? "
        f"int(object.{text}.replace('Gi', '')) : 1000000)"
    )
    here = f"{{{known}}}[variables.infrastructure]"
    return _validation(
        f"!(variables.infrastructure in {{{known}}}) || {asked} >= {here}",
        f"(has(object.{number}) ? '{number}' : '{text}') + ': control-plane machines have ' + string({asked}) + ' GiB "
        f"of memory, but kubeadm needs ' + string({here}) + ' on this infrastructure; ask for ' + string({here}) + "
        "' or more'",
    )


def _since_v2() -> Object:
    """Of a claim that is made by revision v1 and does not move on with the same change."""
    fields = [ClusterFields.model_fields[name].alias or name for name in SINCE_V2]
    given = " || ".join(_is_new(f"spec.parameters.{each}") for each in fields)
    annotations = "object.metadata.annotations"
    moves = f"has({annotations}) && '{REVISION}' in {annotations} && {annotations}['{REVISION}'] != 'v1'"
    return _validation(
        "oldObject == null || !has(oldObject.status) || !has(oldObject.status.compositionRevision) || "
        f"oldObject.status.compositionRevision != 'v1' || {moves} || !({given})",
        "'spec.parameters: the claim is pinned to composition revision v1, which knows nothing of "
        f"{', '.join(fields)}; "
        "move it on first: steelyard revise ' + object.metadata.name + ' -n ' + request.namespace + ' --to v2'",
    )


_KEYS: Final = "each.labels.exists(key, "
_LABELED: Final = f"object.{POOLS}.filter(each, has(each.labels))"
_LABELS: Final = _validation(
    f"!{_is_new(POOLS)} || !{_LABELED}.exists(each, {_KEYS}size(key) > {_KEY_MAX} || !key.matches('{LABEL_KEY}') || "
    f"(key.matches('{_OF_KUBERNETES}') && !key.matches('{_ALLOWED}'))))",
    f"'{POOLS}: a label of a pool cannot be used: {_NO_KEY}; {_NOT_THEIRS.replace(chr(39), chr(92) + chr(39))}'",
)
_MAY_DELETE: Final = _validation(
    f"oldObject == null || !{_is_new(_TTL)} || authorizer.group(request.resource.group).resource("
    "request.resource.resource).namespace(request.namespace).name(object.metadata.name).check('delete').allowed()",
    f"'{_TTL}: it deletes the claim, which ' + request.userInfo.username + ' may not: ask somebody who may'",
    "Forbidden",
)


def _quoted(text: str) -> str:
    return text.replace("'", "\\'")

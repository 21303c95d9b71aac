"""The admission policies that ship with the claims: nobody has a Secret written where they could not write it, nor
delivered into a cluster that they could not enter, nobody names an environment that there is not, and nobody deletes
what is protected.

All but the last are judged when a claim is created and when what they are about changes, never on a finalizer or a
status: a claim that is stored is not locked out by another platform file. Pure, and the same objects for the embedded
API and for kube-apiserver: what depends on the platform file is written into the expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from steelyard.api import resources
from steelyard.api.authors import AUTHOR, DELIVERY_AUTHOR, DELIVERY_GROUPS, GROUPS
from steelyard.api.claims import DELETION_PROTECTION, PROTECTED
from steelyard.api.secretdelivery import MOST
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = Resource(_GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
BINDINGS: Final = Resource(
    _GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)

_REFERENCE: Final = "object.spec.writeConnectionSecretToRef"
_OLD: Final = "oldObject.spec.writeConnectionSecretToRef"
_OF_CLUSTER_API: Final = "^.+-(ca|etcd|sa|proxy|apiserver-etcd-client|kubeconfig)$"
"""Names of the Secrets that Cluster API makes for a cluster of that name."""

_DELIVERIES: Final = "spec.parameters.deliverTo"
_ENVIRONMENT: Final = "spec.parameters.environment"
_IS_PROTECTED: Final = (
    f"has(oldObject.spec) && has(oldObject.spec.parameters) && has(oldObject.{DELETION_PROTECTION}) && "
    f"oldObject.{DELETION_PROTECTION} == true"
)


def connection_secrets(
    domain: str, claims: Sequence[Resource], grants: Mapping[str, Sequence[str]], robots: Sequence[str]
) -> Object:
    """`grants`: the namespaces in which claims of a namespace, or of any (`*`), may have Secrets written. `robots`:
    names of users whose own rights do not count.
    """
    variables = {
        "destination": f"has({_REFERENCE}.namespace) ? {_REFERENCE}.namespace : request.namespace",
        "isElsewhere": "variables.destination != request.namespace",
        "isNew": f"oldObject == null || !has({_OLD}) || {_OLD} != {_REFERENCE}",
        "isGranted": _granted(grants, "variables.destination"),
        "isRobot": f"request.userInfo.username in [{_texts(robots)}]" if robots else "false",
        "author": _annotation("object", AUTHOR),
        "authorGroups": _annotation("object", GROUPS),
        "groups": "has(request.userInfo.groups) ? request.userInfo.groups.join('\\n') : ''",
        "rights": "authorizer.group('').resource('secrets').namespace(variables.destination).check('create').allowed()",
    }
    subject = "'the connection Secret cannot go to namespace ' + variables.destination + ': '"
    way_out = (
        "' Ask the platform\\'s administrators to grant claims in ' + request.namespace + ' that namespace "
        "(connectionSecrets.grants in the platform file), or leave out writeConnectionSecretToRef.namespace.'"
    )
    signed = (
        "variables.author == request.userInfo.username && variables.authorGroups == variables.groups"
        " || variables.isGranted && variables.author == '' && variables.authorGroups == ''"
    )
    kept = (
        f"variables.author == {_annotation('oldObject', AUTHOR)} "
        f"&& variables.authorGroups == {_annotation('oldObject', GROUPS)}"
    )
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": f"connection-secrets.{resources.compute_group(domain)}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(claims),
            "matchConditions": [{"name": "has-connection-secret", "expression": f"has({_REFERENCE})"}],
            "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
            "validations": [
                {
                    "expression": "!variables.isElsewhere || !variables.isNew || variables.isGranted || "
                    "!variables.isRobot && variables.rights",
                    "reason": "Forbidden",
                    "messageExpression": f"{subject} + (variables.isRobot ? request.userInfo.username + ' acts for "
                    "others, so its own rights do not count, and claims in ' + request.namespace + ' have no grant "
                    f"for it.' : request.userInfo.username + ' may not create Secrets there.') + {way_out}",
                },
                {
                    "expression": f"!variables.isElsewhere || (variables.isNew ? {signed} : {kept})",
                    "reason": "Forbidden",
                    "messageExpression": "'the annotations "
                    f"{AUTHOR} and {GROUPS} say who asked for a connection Secret in another namespace: ' + "
                    "(variables.isNew ? 'set them to ' + request.userInfo.username + ' and to your groups, one a line, "
                    "in the order in which kubectl auth whoami shows them' : 'leave them as they are')",
                },
                {
                    "expression": "variables.isElsewhere || !variables.isNew || "
                    f"!{_REFERENCE}.name.matches('{_OF_CLUSTER_API}') || "
                    f"{_REFERENCE}.name == object.metadata.name + '-kubeconfig'",
                    "reason": "Invalid",
                    "messageExpression": f"'Cluster API makes a Secret called ' + {_REFERENCE}.name + ' for a cluster "
                    "in this namespace; choose another name, such as ' + object.metadata.name + '-connection'",
                },
            ],
        },
    }  # fmt: skip


def deliveries(
    domain: str, claims: Sequence[Resource], grants: Mapping[str, Sequence[str]], robots: Sequence[str]
) -> Object:
    """`grants`: the namespaces into whose clusters claims of a namespace, or of any (`*`), may deliver.

    Each place has a validation of its own: kube-apiserver allows one expression the cost of two questions to its
    authorizer.
    """
    places, old = f"object.{_DELIVERIES}", f"oldObject.{_DELIVERIES}"
    variables = {
        "elsewhere": f"{places}.filter(each, has(each.clusterNamespace) && each.clusterNamespace != request.namespace)",
        "isNew": f"oldObject == null || !has({old}) || {old} != {places}",
        "isRobot": f"request.userInfo.username in [{_texts(robots)}]" if robots else "false",
        "areGranted": f"variables.elsewhere.all(each, {_granted(grants, 'each.clusterNamespace')})",
        "author": _annotation("object", DELIVERY_AUTHOR),
        "authorGroups": _annotation("object", DELIVERY_GROUPS),
        "groups": "has(request.userInfo.groups) ? request.userInfo.groups.join('\\n') : ''",
    }
    signed = (
        "variables.author == request.userInfo.username && variables.authorGroups == variables.groups"
        " || variables.areGranted && variables.author == '' && variables.authorGroups == ''"
    )
    kept = (
        f"variables.author == {_annotation('oldObject', DELIVERY_AUTHOR)} "
        f"&& variables.authorGroups == {_annotation('oldObject', DELIVERY_GROUPS)}"
    )
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": f"deliveries.{resources.compute_group(domain)}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(claims),
            "matchConditions": [
                {
                    "name": "delivers-elsewhere",
                    "expression": f"has({places}) && {places}.exists(each, has(each.clusterNamespace) && "
                    "each.clusterNamespace != request.namespace)",
                }
            ],
            "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
            "validations": [
                *(_enters(f"variables.elsewhere[{index}]", index, grants) for index in range(MOST)),
                {
                    "expression": f"variables.isNew ? {signed} : {kept}",
                    "reason": "Forbidden",
                    "messageExpression": "'the annotations "
                    f"{DELIVERY_AUTHOR} and {DELIVERY_GROUPS} say who asked for deliveries into clusters of another "
                    "namespace: ' + (variables.isNew ? 'set them to ' + request.userInfo.username + ' and to your "
                    "groups, one a line, in the order in which kubectl auth whoami shows them' : 'leave them as they "
                    "are')",
                },
            ],
        },
    }


def _enters(place: str, index: int, grants: Mapping[str, Sequence[str]]) -> Object:
    """Who may read a cluster's kubeconfig administers it, and may write there as well."""
    may = (
        f"authorizer.group('').resource('secrets').namespace({place}.clusterNamespace).name({place}.cluster + "
        "'-kubeconfig').check('get').allowed()"
    )
    return {
        "expression": f"!variables.isNew || size(variables.elsewhere) <= {index} || "
        f"{_granted(grants, f'{place}.clusterNamespace')} || !variables.isRobot && {may}",
        "reason": "Forbidden",
        "messageExpression": f"'nothing can be delivered into cluster ' + {place}.cluster + ' of namespace ' + "
        f"{place}.clusterNamespace + ': ' + (variables.isRobot ? request.userInfo.username + ' acts for others, so its "
        "own rights do not count, and claims in ' + request.namespace + ' have no grant for it.' : "
        f"request.userInfo.username + ' may not read Secret ' + {place}.cluster + '-kubeconfig there.') + ' Ask the "
        "platform\\'s administrators to grant claims in ' + request.namespace + ' the clusters in that namespace "
        "(connectionSecrets.grants in the platform file), or deliver into a cluster of ' + request.namespace + '.'",
    }


def environments(domain: str, claims: Sequence[Resource], names: Sequence[str], previews: str) -> Object:
    """`names` are those that claims may use; `previews` is a pattern for those of pull requests, or empty."""
    is_preview = f" || variables.name.matches('^({previews})$')" if previews else ""
    variables = {
        "name": f"object.{_ENVIRONMENT}",
        "isNew": f"oldObject == null || !has(oldObject.{_ENVIRONMENT}) || oldObject.{_ENVIRONMENT} != variables.name",
        "names": f"[{', '.join(_text(name) for name in names)}]",
        # Those of the same letters come first, but for one where there are several; then those that begin the same for
        # longest.
        "near": "([variables.names.filter(each, size(each) - size(variables.name) in [-1, 0, 1] && "
        "size(variables.name.split('').filter(letter, !each.contains(letter))) <= (size(variables.name) > 3 ? 1 : 0))] "
        "+ [5, 4, 3, 2].map(length, variables.names.filter(each, size(variables.name) >= length && "
        "each.startsWith(variables.name.substring(0, length))))).filter(found, size(found) > 0)",
    }
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": f"environments.{resources.compute_group(domain)}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(claims),
            "matchConditions": [{"name": "has-environment", "expression": f"has(object.{_ENVIRONMENT})"}],
            "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
            "validations": [
                {
                    "expression": f"!variables.isNew || variables.name in variables.names{is_preview}",
                    "reason": "Invalid",
                    "messageExpression": f"'{_ENVIRONMENT}: there is no environment ' + variables.name + "
                    "(size(variables.near) > 0 ? '; did you mean ' + variables.near[0][0] + '?' : '') + "
                    f"' There are: {', '.join(names)}'",
                }
            ],
        },
    }


def protection(domain: str, claims: Sequence[Resource]) -> Object:
    """Nobody deletes a claim that says it is protected, whatever their rights: that takes two steps."""
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": f"protected-claims.{resources.compute_group(domain)}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints(claims, "DELETE"),
            "variables": [{"name": "isProtected", "expression": _IS_PROTECTED}],
            "validations": [
                {
                    "expression": f"{_annotation('oldObject', PROTECTED)} != 'true'",
                    "reason": "Forbidden",
                    "messageExpression": f"oldObject.kind + ' ' + oldObject.metadata.name + ' is protected by the "
                    f"annotation {PROTECTED}; to delete it, take that off first: kubectl annotate ' + "
                    f"oldObject.kind.lowerAscii() + ' ' + oldObject.metadata.name + ' -n ' + request.namespace + "
                    f"' {PROTECTED}-'",
                },
                {
                    "expression": "!variables.isProtected",
                    "reason": "Forbidden",
                    "messageExpression": "oldObject.kind + ' ' + oldObject.metadata.name + ' is protected by "
                    f"{DELETION_PROTECTION}; to delete it, set that to false first'",
                },
            ],
        },
    }


def binding(policy: Object, action: Literal["Deny", "Warn"] = "Deny") -> Object:
    """What puts a policy into force; they are called alike."""
    name = objects.name(policy)
    return {
        "apiVersion": BINDINGS.api_version,
        "kind": BINDINGS.kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": [action]},
    }


def constraints(claims: Sequence[Resource], *operations: str) -> Object:
    """Which requests a policy is about: those that create or update claims of these kinds, if no others are named."""
    groups = dict.fromkeys(claim.group for claim in claims)
    return {
        "resourceRules": [
            {
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": list(operations or ("CREATE", "UPDATE")),
                "resources": [claim.plural for claim in claims if claim.group == group],
            }
            for group in groups
        ]
    }


def _granted(grants: Mapping[str, Sequence[str]], destination: str) -> str:
    """Names of namespaces need no quoting: they are letters, digits and dashes."""
    known = [
        f"{destination} in [{_texts(targets)}]"
        if source == "*"
        else f"request.namespace == '{source}' && {destination} in [{_texts(targets)}]"
        for source, targets in sorted(grants.items())
        if targets
    ]
    return " || ".join(known) or "false"


def _texts(values: Sequence[str]) -> str:
    return ", ".join(map(_text, sorted(values)))


def _text(value: str) -> str:
    return f"'{value}'"


def _annotation(owner: str, key: str) -> str:
    found = f"{owner}.metadata.annotations"
    return f"(has({found}) && '{key}' in {found} ? {found}['{key}'] : '')"

"""What a claim may call its things outside of the API: the name of a database, of a Helm release.

Such a name is a pointer: a provider takes whatever is there under it for the claim's own. So a database's begins with
the environment's prefix, unless the platform file grants it to the namespace; none looks like a name that is derived
for somebody else; and none changes, since another name is another database. That two claims do not have the same one is
kept where it is used: the objects that stand for them are called after it, and there is one of each name.

`database_problem` and `release_problem` are asked again at every use, and say the same as the policies, which are
judged when a claim is written: on the embedded API and on kube-apiserver alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.api.dataservices import NAME_MAX
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

RELEASE_MAX: Final = 40
"""Of a Helm release. Its StatefulSets are called `<release>-replicas`, and their pods carry that with a hash in a
label, which holds 63 characters."""
RELEASE_PREFIX: Final = "redis-"
OWNER: Final = "_owner"
"""After the name of a database: the role that has it."""
DIGEST_LENGTH: Final = 10

GENERATION: Final = "_[rc][0-9]{1,4}$"
"""After the name of a database: its later logins, and the copies that take each other's place."""

_DATABASE: Final = "^[a-z]([a-z0-9_-]*[a-z0-9])?$"
_RESERVED: Final = f"({OWNER}|_[0-9a-f]{{{DIGEST_LENGTH}}})$"
_RELEASE: Final = f"^{RELEASE_PREFIX}([a-z0-9-]*[a-z0-9])$"
_ENVIRONMENT: Final = "object.spec.parameters.environment"
_DATABASE_RULE: Final = (
    f"it must be 1 to {NAME_MAX} lower-case letters, digits, - and _, begin with a letter, end with a letter or digit, "
    f"and not end in {OWNER}, in _r or _c and digits, or in _ and {DIGEST_LENGTH} hexadecimal digits, as the "
    "platform\\'s own names do"
)
_RELEASE_RULE: Final = (
    f"it must begin with {RELEASE_PREFIX} and have at most {RELEASE_MAX} lower-case letters, digits and -"
)
_STAYS: Final = "it cannot be set, changed or taken off later: another name is another thing, and what is in it is lost"


def database_problem(
    name: str, prefixes: Sequence[str], others: Sequence[str], *, is_granted: bool, has_generations: bool = True
) -> str:
    """Why a database may not be called so; empty if it may. `prefixes` are those of the claim's environment, `others`
    those of all. Databases that have one login for ever may be called as a later one of somebody's: they are older
    than those.

    >>> database_problem("sandbox-db", ["sandbox_", "sandbox-"], [], is_granted=False)
    ''
    """
    is_reserved = re.search(_RESERVED, name) or (has_generations and re.search(GENERATION, name))
    if len(name) > NAME_MAX or not re.match(_DATABASE, name) or is_reserved:
        return _DATABASE_RULE.replace("\\", "")
    if is_granted or any(_is_within(name, prefix, prefixes, others) for prefix in prefixes):
        return ""
    return f"it must begin with {' or '.join(prefixes)}"


def _is_within(name: str, prefix: str, own: Sequence[str], others: Sequence[str]) -> bool:
    """`dev-two-db` begins with `dev-`, and is still of the environment dev-two."""
    is_anothers = any(len(each) > len(prefix) and name.startswith(each) for each in others if each not in own)
    return name.startswith(prefix) and not is_anothers


def release_problem(name: str) -> str:
    return "" if len(name) <= RELEASE_MAX and re.match(_RELEASE, name) else _RELEASE_RULE


def databases(
    claims: Resource,
    *,
    prefixes: Mapping[str, Sequence[str]],
    grants: Mapping[str, Sequence[str]],
) -> Object:
    """`prefixes` by environment, with aliases; `grants` are names outside of them by the namespace of claims, or `*`.
    Environments of pull requests have their own name for a prefix.
    """
    known = ", ".join(f"'{name}': [{_texts(each)}]" for name, each in prefixes.items())
    all_prefixes = sorted({prefix for each in prefixes.values() for prefix in each})
    is_anothers = (
        f"[{_texts(all_prefixes)}].exists(other, size(other) > size(prefix) && variables.name.startsWith(other) && "
        "!(other in variables.prefixes))"
    )
    variables = {
        "environment": f"string({_ENVIRONMENT})",
        "prefixes": f"variables.environment in {{{known}}} ? {{{known}}}[variables.environment] : "
        "[variables.environment.replace('-', '_') + '_', variables.environment + '-']",
        "isGranted": _granted(grants),
        "isWithin": f"variables.prefixes.exists(prefix, variables.name.startsWith(prefix) && !{is_anothers})",
    }
    name_rules = [
        _validation(
            f"size(variables.name) <= {NAME_MAX} && variables.name.matches('{_DATABASE}') && "
            f"!variables.name.matches('{_RESERVED}') && !variables.name.matches('{GENERATION}')",
            "Invalid",
            f"': {_DATABASE_RULE}'",
        ),
        _validation(
            "variables.isWithin || variables.isGranted",
            "Forbidden",
            "' is outside of environment ' + variables.environment + ': it must begin with ' + "
            "variables.prefixes.join(' or ') + '. Ask the platform\\'s administrators to grant claims in ' + "
            "request.namespace + ' that name (postgresql.externalNames in the platform file), or leave it out'",
        ),
    ]
    return _policy(claims, variables, name_rules)


def releases(claims: Resource) -> Object:
    """Helm releases are in the claim's namespace, so there is nothing but their form to judge."""
    rule = f"size(variables.name) <= {RELEASE_MAX} && variables.name.matches('{_RELEASE}')"
    return _policy(claims, {}, [_validation(rule, "Invalid", f"': {_RELEASE_RULE}'")])


def _policy(claims: Resource, variables: Mapping[str, str], rules: Sequence[Object]) -> Object:
    names = {"name": _annotation("object"), "oldName": f"oldObject == null ? '' : {_annotation('oldObject')}"}
    stays: Object = {
        "expression": "oldObject == null || variables.name == variables.oldName",
        "reason": "Invalid",
        "messageExpression": f"'the annotation {EXTERNAL_NAME} says what the thing is called outside of the API, and "
        f"{_STAYS}. ' + (variables.oldName == '' ? 'Leave it out' : 'Put back ' + variables.oldName) + ', or make "
        "another claim'",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"external-names.{claims.group}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [claims.group],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [claims.plural],
                    }
                ]
            },
            "variables": [{"name": name, "expression": each} for name, each in {**names, **variables}.items()],
            "validations": [stays, *rules],
        },
    }


def _validation(rule: str, reason: str, message: str) -> Object:
    """Of the name, where it is given with a new claim."""
    return {
        "expression": f"oldObject != null || variables.name == '' || ({rule})",
        "reason": reason,
        "messageExpression": f"'the annotation {EXTERNAL_NAME}: ' + variables.name + {message}",
    }


def _granted(grants: Mapping[str, Sequence[str]]) -> str:
    known = [
        f"variables.name in [{_texts(names)}]"
        if source == "*"
        else f"request.namespace == '{source}' && variables.name in [{_texts(names)}]"
        for source, names in sorted(grants.items())
    ]
    return " || ".join(known) or "false"


def _texts(values: Sequence[str]) -> str:
    """None of them needs quoting: they are letters, digits, dashes and underscores."""
    return ", ".join(f"'{value}'" for value in values)


def _annotation(owner: str) -> str:
    found = f"{owner}.metadata.annotations"
    return f"(has({found}) && '{EXTERNAL_NAME}' in {found} ? {found}['{EXTERNAL_NAME}'] : '')"

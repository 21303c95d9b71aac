"""Admission policies about databases: nobody has a copy of data that they could not read, nobody asks for an extension
or a template that is not for everybody, and nobody deletes a database of an environment that protects them.

The same objects for the embedded API and for kube-apiserver; what depends on the platform file is written into the
expressions. Compositions ask the same again at every use (`compose/postgresqlinstance/terms.py`), and the claims
controller asks what the author of a copy may do whenever one is about to be made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api.authors import CLONE_AUTHOR, CLONE_GROUPS
from steelyard.api.claims import DELETION_PROTECTION
from steelyard.api.policies import POLICIES, constraints
from steelyard.api.postgresql import SOURCE
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_PARAMETERS: Final = "spec.parameters"
_CLONE: Final = f"{_PARAMETERS}.cloneFrom"


def clones(claims: Resource, grants: Mapping[str, Sequence[str]], robots: Sequence[str]) -> Object:
    """`grants`: the namespaces of which claims in a namespace, or in any (`*`), may have masked copies. `robots`: names
    of users whose own rights do not count. Who copies as it is needs the right, whatever is granted."""
    asked, old = f"object.{_CLONE}", f"oldObject.{_CLONE}"
    variables = {
        "source": f"has({asked}.namespace) ? {asked}.namespace : request.namespace",
        "isElsewhere": "variables.source != request.namespace",
        "isNew": f"oldObject == null || !has({old}) || {old} != {asked}",
        "isMasked": f"!has({asked}.anonymise) || {asked}.anonymise",
        "isGranted": f"variables.isMasked && ({_granted(grants)})",
        "isRobot": f"request.userInfo.username in [{_texts(robots)}]" if robots else "false",
        "author": _annotation("object", CLONE_AUTHOR),
        "authorGroups": _annotation("object", CLONE_GROUPS),
        "groups": "has(request.userInfo.groups) ? request.userInfo.groups.join('\\n') : ''",
        "rights": "authorizer.group('').resource('secrets').namespace(variables.source).check('get').allowed()",
    }
    signed = (
        "variables.author == request.userInfo.username && variables.authorGroups == variables.groups"
        " || variables.isGranted && variables.author == '' && variables.authorGroups == ''"
    )
    kept = (
        f"variables.author == {_annotation('oldObject', CLONE_AUTHOR)} "
        f"&& variables.authorGroups == {_annotation('oldObject', CLONE_GROUPS)}"
    )
    rules: list[Object] = [
        {
            "expression": "!variables.isElsewhere || !variables.isNew || variables.isGranted || "
            "!variables.isRobot && variables.rights",
            "reason": "Forbidden",
            "messageExpression": f"'{_CLONE}: data of namespace ' + variables.source + ' cannot be copied: ' + "
            "(variables.isRobot ? request.userInfo.username + ' acts for others, so its own rights do not count, and "
            "claims in ' + request.namespace + ' have no grant for it.' : request.userInfo.username + ' may not read "
            "Secrets there.') + (variables.isMasked ? ' Ask the platform\\'s administrators to grant claims in ' + "
            "request.namespace + ' masked copies of databases there (postgresql.clones in the platform file).' : "
            "' Leave anonymise out, and ask for a grant of masked copies (postgresql.clones in the platform file).')",
        },
        {
            "expression": f"!variables.isElsewhere || (variables.isNew ? {signed} : {kept})",
            "reason": "Forbidden",
            "messageExpression": f"'the annotations {CLONE_AUTHOR} and {CLONE_GROUPS} say who asked for a copy of data "
            "in another namespace: ' + (variables.isNew ? 'set them to ' + request.userInfo.username + ' and to your "
            "groups, one a line, in the order in which kubectl auth whoami shows them' : 'leave them as they are')",
        },
    ]
    conditions = [{"name": "is-a-copy", "expression": f"has({asked})"}]
    return _policy(f"clones.{claims.group_resource}", constraints([claims]), variables, rules, conditions)


def terms(claims: Resource, *, extensions: Sequence[str], templates: Sequence[str]) -> Object:
    """What the platform file allows, judged where it is new; and an annotation that is read once, when the database is
    made."""
    variables = {
        "extensions": f"has(object.{_PARAMETERS}.extensions) ? object.{_PARAMETERS}.extensions : []",
        "before": f"oldObject != null && has(oldObject.{_PARAMETERS}.extensions) ? "
        f"oldObject.{_PARAMETERS}.extensions : []",
        "unknown": f"variables.extensions.filter(each, !(each in [{_texts(extensions)}]) && "
        "!(each in variables.before))",
        "template": f"has(object.{_PARAMETERS}.template) ? string(object.{_PARAMETERS}.template) : ''",
        "source": _annotation("object", SOURCE),
        "oldSource": f"oldObject == null ? '' : {_annotation('oldObject', SOURCE)}",
    }
    rules: list[Object] = [
        {
            "expression": "size(variables.unknown) == 0",
            "reason": "Forbidden",
            "messageExpression": f"'{_PARAMETERS}.extensions: ' + variables.unknown.join(', ') + ': none that the "
            f"platform file allows (postgresql.extensions): {', '.join(sorted(extensions))}'",
        },
        {
            "expression": f"oldObject != null || variables.template == '' || variables.template in "
            f"[{_texts(templates)}]",
            "reason": "Forbidden",
            "messageExpression": f"'{_PARAMETERS}.template: ' + variables.template + ': none that the platform file "
            f"allows (postgresql.templates): {', '.join(sorted(templates)) or 'none'}'",
        },
        {
            "expression": "oldObject == null || variables.source == variables.oldSource",
            "reason": "Invalid",
            "messageExpression": f"'the annotation {SOURCE} says what the database begins with, and cannot be set, "
            "changed or taken off later. ' + (variables.oldSource == '' ? 'Leave it out' : 'Put back ' + "
            "variables.oldSource) + ', or make another claim'",
        },
    ]
    return _policy(f"terms.{claims.group_resource}", constraints([claims]), variables, rules)


def protection(claims: Resource, environments: Sequence[str]) -> Object:
    """Of claims in these environments, by all their names, that do not say otherwise."""
    variables = {
        "isSaid": f"has(oldObject.{DELETION_PROTECTION})",
        "environment": f"string(oldObject.{_PARAMETERS}.environment)",
    }
    rules: list[Object] = [
        {
            "expression": f"variables.isSaid || !(variables.environment in [{_texts(environments)}])",
            "reason": "Forbidden",
            "messageExpression": "oldObject.kind + ' ' + oldObject.metadata.name + ' is protected, as databases in ' + "
            "variables.environment + ' are unless their claim says otherwise; to delete it with everything in it, set "
            f"{DELETION_PROTECTION} to false first'",
        }
    ]
    conditions = [
        {
            "name": "has-environment",
            "expression": f"has(oldObject.spec) && has(oldObject.{_PARAMETERS}) && "
            f"has(oldObject.{_PARAMETERS}.environment)",
        }
    ]
    name = f"protected.{claims.group_resource}"
    return _policy(name, constraints([claims], "DELETE"), variables, rules, conditions)


def _policy(
    name: str,
    matching: Object,
    variables: Mapping[str, str],
    rules: Sequence[Object],
    conditions: Sequence[Object] = (),
) -> Object:
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": matching,
            **({"matchConditions": list(conditions)} if conditions else {}),
            "variables": [{"name": key, "expression": each} for key, each in variables.items()],
            "validations": list(rules),
        },
    }


def _granted(grants: Mapping[str, Sequence[str]]) -> str:
    """Names of namespaces need no quoting: they are letters, digits and dashes."""
    known = [
        f"variables.source in [{_texts(each)}]"
        if place == "*"
        else f"request.namespace == '{place}' && variables.source in [{_texts(each)}]"
        for place, each in sorted(grants.items())
        if each
    ]
    return " || ".join(known) or "false"


def _texts(values: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(values))


def _annotation(owner: str, key: str) -> str:
    found = f"{owner}.metadata.annotations"
    return f"(has({found}) && '{key}' in {found} ? {found}['{key}'] : '')"

"""Admission policies and their bindings: upstream's defaults and rules, every expression compiled before it is kept.

Who names a kind or an object for parameters must be allowed to read it, since a policy's messages can show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

from steelyard.kube import errors, fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, User
from steelyard.kube.server.expressions import compiling, matchconditions
from steelyard.kube.server.expressions.compiling import Compiled, Validation, of
from steelyard.kube.server.rights import rules as access_rules
from steelyard.kube.server.rights.authz import Attributes
from steelyard.kube.server.strategies import labelselectors
from steelyard.kube.server.strategies.base import Around, Strategy, default, spec
from steelyard.kube.server.strategies.webhooks import rule_problems, supported

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = Resource(_GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
    "let", "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip
_NEITHER: Final = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024


class PolicyStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False
    involves_caller = True

    def prepare_create(self, obj: Object) -> None:
        default(spec(obj), "failurePolicy", "Fail")
        _complete(spec(obj), "matchConstraints")

    def validate_create(self, obj: Object) -> list[Cause]:
        return list(_judge(obj, None))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return list(_judge(obj, old))

    def involve(self, obj: Object, old: Object | None, call: Call, around: Around) -> None:
        kind = objects.mapping(objects.at(obj, "spec", "paramKind"))
        if not kind or call.subresource or SYSTEM_MASTERS in call.user.groups:
            return
        if old is not None and objects.at(old, "spec", "paramKind") == kind:
            return
        group, plural = _resource(around, kind)
        asked = Attributes(call.user, "get", group=group, plural=plural, namespace="*", name="*")
        if not around.authorizer.decide(asked).allowed:
            text = (
                f'user {_shown(call.user)} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={kind.get('kind')}, apiVersion={kind.get('apiVersion')})"
            )
            raise _forbidden(obj, "spec.paramKind", text)


class BindingStrategy(Strategy):
    tracks_generation = True
    is_judged_by_schema = False
    involves_caller = True

    def prepare_create(self, obj: Object) -> None:
        _complete(spec(obj), "matchResources")

    def validate_create(self, obj: Object) -> list[Cause]:
        return list(_judge_binding(objects.mapping(obj.get("spec"))))

    def involve(self, obj: Object, old: Object | None, call: Call, around: Around) -> None:
        given = objects.mapping(obj.get("spec"))
        reference = objects.mapping(given.get("paramRef"))
        if not reference or SYSTEM_MASTERS in call.user.groups:
            return
        before = objects.mapping((old or {}).get("spec"))
        if all(before.get(key) == given.get(key) for key in ("paramRef", "policyName")):
            return
        group, plural, unknown = "*", "*", ""
        name = str(given.get("policyName") or "")
        try:
            kind = objects.mapping(objects.at(around.head(_POLICIES, "", name).object, "spec", "paramKind"))
            if kind:
                group, plural = _resource(around, kind)
                unknown = f"unable to resolve paramKind {_kind(kind)}" if plural == "*" else ""
        except errors.NotFound:
            unknown = f"unable to get policy {name}"
        verb = "get" if reference.get("name") else "list"
        namespace, wanted = str(reference.get("namespace") or ""), str(reference.get("name") or "")
        asked = Attributes(call.user, verb, group=group, plural=plural, namespace=namespace, name=wanted)
        if around.authorizer.decide(asked).allowed:
            return
        user = f'user {_shown(call.user)} does not have "{verb}" permission'
        if unknown:
            text = (
                f"{unknown} to determine minimum required permissions and {user} for all groups, versions and resources"
            )
        else:
            text = f"{user} on the object referenced by paramRef"
        raise _forbidden(obj, "spec.paramRef", text)


def _complete(target: Object, field: str) -> None:
    given = target.get(field)
    if not isinstance(given, dict):
        return
    resources = cast(Object, given)
    default(resources, "matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})
    for rule in (*of(resources, "resourceRules"), *of(resources, "excludeResourceRules")):
        default(rule, "scope", "*")


def _resource(around: Around, kind: Object) -> tuple[str, str]:
    """Group and plural of a kind; any plural where it is not served."""
    group, _ = split_api_version(str(kind.get("apiVersion") or ""))
    found = around.registry.of_kind(group, str(kind.get("kind") or ""))
    return group, found.resource.plural if found is not None else "*"


def _kind(kind: Object) -> str:
    return f"&ParamKind{{APIVersion:{kind.get('apiVersion')},Kind:{kind.get('kind')},}}"


def _shown(user: User) -> str:
    """As Go prints it."""
    extra = " ".join(f"{key}:{access_rules.go_list(values)}" for key, values in sorted(user.extra.items()))
    groups = " ".join(user.groups)
    return f"&{{{user.name} {user.uid} [{groups}] map[{extra}]}}"


def _forbidden(obj: Object, place: str, text: str) -> errors.ApiError:
    return errors.invalid(_GROUP, str(obj["kind"]), objects.name(obj), [fields.forbidden(place, text)])


def _judge(obj: Object, old: Object | None) -> Iterable[Cause]:
    given = objects.mapping(obj.get("spec"))
    yield from supported(given, "failurePolicy", ("Fail", "Ignore"), "spec")
    kind = given.get("paramKind")
    if kind is not None:
        yield from _judge_kind(objects.mapping(kind), "spec.paramKind")
    constraints = given.get("matchConstraints")
    if constraints is None:
        yield fields.required("spec.matchConstraints")
    else:
        yield from _judge_resources(objects.mapping(constraints), "spec.matchConstraints")
        if not objects.mapping(constraints).get("resourceRules"):
            yield fields.required("spec.matchConstraints.resourceRules")
    if compiling.is_vouched_for(given):
        return
    known = None if old is None else objects.at(old, "spec", "matchConditions")
    if old is None or known != given.get("matchConditions"):
        yield from matchconditions.validate(matchconditions.of(given), "spec.matchConditions", params=kind is not None)
    yield from _judge_expressions(obj, given)


def _judge_expressions(obj: Object, given: Object) -> Iterable[Cause]:
    compiled = compiling.compile_(given)
    for index, variable in enumerate(of(given, "variables")):
        yield from _judge_variable(variable, compiled, f"spec.variables[{index}]")
    validations, annotations = of(given, "validations"), of(given, "auditAnnotations")
    if not validations and not annotations:
        yield fields.required("spec.validations", _NEITHER)
        yield fields.required("spec.auditAnnotations", _NEITHER)
        return
    for index, validation in enumerate(validations):
        yield from _judge_validation(validation, compiled.validations[index], f"spec.validations[{index}]")
    place = "spec.auditAnnotations"
    if len(annotations) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield fields.invalid(place, annotations, text)
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        key, text = str(annotation.get("key") or ""), str(annotation.get("valueExpression") or "")
        full = f"{objects.name(obj)}/{key}"
        yield from (fields.invalid(f"{place}[{index}].key", full, wrong) for wrong in namerules.qualified_name(full))
        if not text.strip():
            yield fields.required(f"{place}[{index}].valueExpression", "valueExpression is not specified")
        elif len(text.strip()) > _LONGEST_ANNOTATION:
            wrong = f"must not exceed {_LONGEST_ANNOTATION} bytes in length"
            yield fields.required(f"{place}[{index}].valueExpression", wrong)
        else:
            expression = compiled.annotations[index][1]
            yield from matchconditions.judge(expression, f"{place}[{index}].valueExpression", "string", "null_type")
        if key in keys:
            yield fields.duplicate(f"{place}[{index}].key", key)
        keys.add(key)


def _judge_variable(variable: Object, compiled: Compiled, place: str) -> Iterable[Cause]:
    name = str(variable.get("name") or "")
    if not name.strip():
        yield fields.required(f"{place}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        yield fields.invalid(f"{place}.name", name, "must be a valid CEL identifier")
    if not str(variable.get("expression") or "").strip():
        yield fields.required(f"{place}.expression", "expression is not specified")
    else:
        yield from matchconditions.judge(compiled.variables[name], f"{place}.expression")


def _judge_validation(given: Object, compiled: Validation, place: str) -> Iterable[Cause]:
    if not str(given.get("expression") or "").strip():
        yield fields.required(f"{place}.expression", "expression is not specified")
    else:
        yield from matchconditions.judge(compiled.expression, f"{place}.expression", "bool")
    text, message = str(given.get("messageExpression") or ""), str(given.get("message") or "")
    if text and not text.strip():
        yield fields.invalid(f"{place}.messageExpression", text, "must be non-empty if specified")
    elif compiled.message_expression is not None:
        yield from matchconditions.judge(compiled.message_expression, f"{place}.messageExpression", "string")
    if message and not message.strip():
        yield fields.invalid(f"{place}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield fields.invalid(f"{place}.message", message, "must not contain line breaks")
    yield from supported(given, "reason", _REASONS, place)


def _judge_kind(kind: Object, place: str) -> Iterable[Cause]:
    api_version, name = str(kind.get("apiVersion") or ""), str(kind.get("kind") or "")
    group, version = split_api_version(api_version)
    if not api_version:
        yield fields.required(f"{place}.apiVersion")
    elif api_version.count("/") > 1:
        yield fields.invalid(f"{place}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        if group and (wrong := namerules.dns_subdomain(group)):
            yield fields.invalid(f"{place}.apiVersion", group, ",".join(wrong))
        if not version:
            yield fields.invalid(f"{place}.apiVersion", api_version, "version must be specified")
        elif wrong := namerules.dns1035_label(version):
            yield fields.invalid(f"{place}.apiVersion", version, ",".join(wrong))
    if not name:
        yield fields.required(f"{place}.kind")
    elif wrong := namerules.dns1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        yield fields.invalid(f"{place}.kind", name, text)


def _judge_resources(given: Object, place: str) -> Iterable[Cause]:
    yield from supported(given, "matchPolicy", ("Equivalent", "Exact"), place)
    for key in ("namespaceSelector", "objectSelector"):
        yield from labelselectors.validate(objects.mapping(given.get(key)), f"{place}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(of(given, key)):
            yield from _judge_rule(rule, f"{place}.{key}[{index}]")


def _judge_rule(rule: Object, place: str) -> Iterable[Cause]:
    seen: set[str] = set()
    for index, name in enumerate(map(str, objects.sequence(rule.get("resourceNames")))):
        for wrong in namerules.path_segment(name):
            yield fields.invalid(f"{place}.resourceNames[{index}]", name, wrong)
        if name in seen:
            yield fields.duplicate(f"{place}.resourceNames[{index}]", name)
        seen.add(name)
    yield from rule_problems(rule, place)


def _judge_binding(given: Object) -> Iterable[Cause]:
    name = str(given.get("policyName") or "")
    if not name:
        yield fields.required("spec.policyName")
    else:
        yield from (fields.invalid("spec.policyName", name, wrong) for wrong in namerules.dns_subdomain(name))
    if given.get("paramRef") is not None:
        yield from _judge_reference(objects.mapping(given["paramRef"]), "spec.paramRef")
    if given.get("matchResources") is not None:
        yield from _judge_resources(objects.mapping(given["matchResources"]), "spec.matchResources")
    place = "spec.validationActions"
    actions = [str(action) for action in objects.sequence(given.get("validationActions"))]
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield fields.not_supported(f"{place}[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            yield fields.duplicate(f"{place}[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield fields.invalid(place, actions, text)
    if not actions:
        yield fields.required(place, "at least one validation action is required")


def _judge_reference(reference: Object, place: str) -> Iterable[Cause]:
    name, selector = str(reference.get("name") or ""), reference.get("selector")
    if name:
        yield from (fields.invalid(f"{place}.name", name, wrong) for wrong in namerules.path_segment(name))
        if selector is not None:
            yield fields.forbidden(f"{place}.name", _EXCLUSIVE)
    if selector is not None:
        yield from labelselectors.validate(objects.mapping(selector), f"{place}.selector")
        if name:
            yield fields.forbidden(f"{place}.selector", _EXCLUSIVE)
    if not name and selector is None:
        yield fields.required(place, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield fields.required(f"{place}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield fields.not_supported(f"{place}.parameterNotFoundAction", action, ("Deny", "Allow"))

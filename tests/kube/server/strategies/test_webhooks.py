"""What may be written into the configurations of webhooks, and what is filled in."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.server.strategies.webhooks import WebhookStrategy

MUTATING = WebhookStrategy(mutating=True)
RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}


def configured(**changes: Any) -> Object:
    hook: Object = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://hooks.example.com/a"},
        "rules": [dict(RULE)],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **changes,
    }
    obj: Object = {"webhooks": [{key: value for key, value in hook.items() if value is not None}]}
    MUTATING.prepare_create(obj)
    return obj


def complaints(obj: Object) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in MUTATING.validate_create(obj)]


def test_defaults_are_filled_in() -> None:
    service: Object = {"namespace": "n", "name": "s"}
    [hook] = configured(clientConfig={"service": service})["webhooks"]
    assert hook["failurePolicy"] == "Fail"
    assert hook["matchPolicy"] == "Equivalent"
    assert hook["timeoutSeconds"] == 10
    assert hook["namespaceSelector"] == hook["objectSelector"] == {}
    assert hook["reinvocationPolicy"] == "Never"
    assert hook["rules"][0]["scope"] == "*"
    assert hook["clientConfig"]["service"]["port"] == 443
    assert complaints({"webhooks": [hook]}) == []


FORM = "; desired format: https://host[/path]"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "webhooks[0].name: Required value"),
    (
        {"name": "a.b"},
        'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots',
    ),
    (
        {"sideEffects": None},
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
    ),
    (
        {"sideEffects": "Some"},
        'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    (
        {"admissionReviewVersions": []},
        "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
    ),
    (
        {"admissionReviewVersions": ["v9"]},
        'webhooks[0].admissionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1',
    ),
    (
        {"admissionReviewVersions": ["v1", "v1"]},
        'webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version',
    ),
    (
        {"timeoutSeconds": 31},
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ),
    (
        {"failurePolicy": "Maybe"},
        'webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
    ),
    (
        {"reinvocationPolicy": "Always"},
        'webhooks[0].reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"',
    ),
    ({"clientConfig": {}}, "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
    (
        {"clientConfig": {"url": "http://a"}},
        f"webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}",
    ),
    (
        {"clientConfig": {"url": "https:///x"}},
        f'webhooks[0].clientConfig.url: Invalid value: "": host must be specified{FORM}',
    ),
    (
        {"clientConfig": {"url": "https://u:p@a"}},
        'webhooks[0].clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL',
    ),
    (
        {"clientConfig": {"url": "https://a?b=c"}},
        'webhooks[0].clientConfig.url: Invalid value: "b=c": query parameters are not permitted in the URL',
    ),
    (
        {"clientConfig": {"service": {"namespace": "n", "name": "s", "path": "xy"}}},
        "webhooks[0].clientConfig.service.path: Invalid value: \"xy\": must start with a '/'",
    ),
    (
        {"clientConfig": {"service": {"namespace": "n", "name": "s", "port": 70000}}},
        "webhooks[0].clientConfig.service.port: Invalid value: 70000: port is not valid: "
        "must be between 1 and 65535, inclusive",
    ),
    ({"rules": [{**RULE, "operations": []}]}, "webhooks[0].rules[0].operations: Required value"),
    (
        {"rules": [{**RULE, "operations": ["*", "CREATE"]}]},
        'webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: '
        "if '*' is present, must not specify other operations",
    ),
    (
        {"rules": [{**RULE, "operations": ["READ"]}]},
        'webhooks[0].rules[0].operations[0]: Unsupported value: "READ": supported values: '
        '"*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
    ),
    (
        {"rules": [{**RULE, "resources": ["*/*", "pods"]}]},
        'webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: '
        "if '*/*' is present, must not specify other resources",
    ),
    (
        {"rules": [{**RULE, "resources": ["pods/*", "pods/status"]}]},
        'webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": '
        "if 'pods/*' is present, must not specify pods/status",
    ),
    (
        {"rules": [{**RULE, "scope": "Universe"}]},
        'webhooks[0].rules[0].scope: Unsupported value: "Universe": supported values: "*", "Cluster", "Namespaced"',
    ),
    (
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "webhooks[0].objectSelector.matchExpressions[0].values: Required value: "
        "must be specified when `operator` is 'In' or 'NotIn'",
    ),
    (
        {"matchConditions": [{"name": "a", "expression": "1 + 1"}]},
        'webhooks[0].matchConditions[0].expression: Invalid value: "1 + 1": must evaluate to bool but got int',
    ),
    (
        {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "false"}]},
        'webhooks[0].matchConditions[1].name: Duplicate value: "a"',
    ),
    (
        {"matchConditions": [{"name": "a"}]},
        "webhooks[0].matchConditions[0].expression: Required value",
    ),
]


@pytest.mark.parametrize("changes, text", WRONG, ids=[str(each[0])[:60] for each in WRONG])
def test_what_is_wrong_is_told_as_upstream_tells_it(changes: dict[str, Any], text: str) -> None:
    assert complaints(configured(**changes)) == [text]


def test_names_are_unique() -> None:
    [hook] = configured()["webhooks"]
    assert complaints({"webhooks": [hook, hook]}) == ['webhooks[1].name: Duplicate value: "a.example.com"']


def test_what_an_old_configuration_had_may_stay() -> None:
    old = configured(sideEffects="Some", admissionReviewVersions=["v9"])
    assert MUTATING.validate_update(old, old) == []
    assert MUTATING.validate_update(old, configured()) != []


def test_a_condition_that_does_not_compile_is_refused() -> None:
    [text] = complaints(configured(matchConditions=[{"name": "a", "expression": "nobody.knows"}]))
    assert text.startswith("webhooks[0].matchConditions[0].expression: Invalid value: ")
    assert "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nobody'" in text

"""Logins for a while: to which database, and when there is something to use."""

from __future__ import annotations

import base64
from typing import Any

from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases, observing

PLATFORM = Platform()


def claim(**parameters: Any) -> Object:
    return {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLAccess",
        "metadata": {"name": "reports", "namespace": "team-a", "uid": "u-1"},
        "spec": {
            "parameters": {"instance": "shop", **parameters},
            "writeConnectionSecretToRef": {"name": "reports-connection"},
        },
    }


def ready(composed: Composed) -> Any:
    return next(each for each in composed.conditions if each.type == "Ready")


def made(asked: Object) -> Observed:
    """As it is once the provider has made a login."""
    found = observing.accessible(asked)
    login = objects.copy(cases.compose(asked, found, PLATFORM).desired["login"].object)
    login["metadata"]["uid"] = "u-login"
    login["status"] = {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}],
        "login": {"name": "tmp_1", "expiresAt": "2026-01-01T01:00:00Z"},
    }
    values = {
        "username": "tmp_1",
        "password": "secret",
        "endpoint": "db",
        "port": "5432",
        "database": "dev-shop",
        "uri": "postgresql://tmp_1:secret@db:5432/dev-shop?sslmode=disable",
        "expires-at": "2026-01-01T01:00:00Z",
    }
    secret: Object = {
        "metadata": {"name": "s", "ownerReferences": [objects.owner_reference(login, controller=True)]},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
    return Observed({"login": login}, {**found.required, "credentials": [secret]})


def test_a_login_is_read_only_and_for_an_hour_unless_more_is_asked_for() -> None:
    composed = cases.compose(claim(), observing.accessible(claim()), PLATFORM)
    spec = composed.desired["login"].object["spec"]

    assert (spec["access"], spec["validFor"]) == ("ReadOnly", "1h")
    assert (spec["database"], spec["memberOf"]) == ("dev-shop", "dev-shop_owner")
    assert spec["writeConnectionSecretToRef"]["namespace"] == "crossplane-system"


def test_more_is_asked_for() -> None:
    asked = claim(access="readWrite", ttl="24h")
    spec = cases.compose(asked, observing.accessible(asked), PLATFORM).desired["login"].object["spec"]

    assert (spec["access"], spec["validFor"]) == ("ReadWrite", "24h")


def test_the_secret_has_the_login_in_use() -> None:
    composed = cases.compose(claim(), made(claim()), PLATFORM)
    data = composed.desired["connection"].object["data"]

    assert data.keys() == {
        "host", "endpoint", "port", "database", "username", "password", "url", "uri", "expires-at",
    }  # fmt: skip
    assert (composed.status["role"], composed.status["loginExpiresAt"]) == ("tmp_1", "2026-01-01T01:00:00Z")


def test_a_database_that_is_not_there_is_waited_for() -> None:
    composed = cases.compose(claim(), NOTHING, PLATFORM)

    assert composed.desired == {}
    assert "there is no such PostgreSQLInstance" in ready(composed).message
    assert composed.look_again
    assert composed.retained == {"login", "connection"}, "what was there stays"


def test_a_database_of_somebody_else_is_not_opened_by_a_status() -> None:
    """Whoever may write the status of a claim may not have logins to what it names."""
    found = observing.accessible(claim())
    [instance] = found.required["instance"]
    forged = {**instance, "status": {"database": "prod_payroll", "compositionRevision": "v2"}}
    composed = cases.compose(claim(), Observed(required={**found.required, "instance": [forged]}), PLATFORM)

    assert "login" not in composed.desired


def test_a_namesake_of_the_database_is_not_opened() -> None:
    found = observing.accessible(claim())
    theirs: Object = {"metadata": {"name": "dev-shop", "labels": {}}, "spec": {"providerConfigRef": {"name": "p"}}}
    composed = cases.compose(claim(), Observed(required={**found.required, "database": [theirs]}), PLATFORM)

    assert "login" not in composed.desired


def test_a_database_that_is_full_is_read_only_for_such_logins_too() -> None:
    found = observing.accessible(claim())
    [instance] = found.required["instance"]
    full = {**instance, "status": {"storage": {"level": "read-only"}}}
    composed = cases.compose(claim(), Observed(required={**found.required, "instance": [full]}), PLATFORM)

    parameters = composed.desired["login"].object["spec"]["configurationParameters"]
    assert {"name": "default_transaction_read_only", "value": "on"} in parameters

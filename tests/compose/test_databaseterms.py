"""How long a database lives, and what protects it, by the claim, the documents' annotation and the platform file."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from steelyard import settings
from steelyard.compose.postgresqlinstance import terms
from steelyard.controllers.claims import expiry
from steelyard.kube.objects import Object
from steelyard.settings import Platform

CREATED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def claim(annotation: str = "", status: Object | None = None, **parameters: Any) -> Object:
    metadata: Object = {"name": "shop", "namespace": "dev", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if annotation:
        metadata["annotations"] = {"ttl": annotation}
    return {
        "kind": "PostgreSQLInstance",
        "metadata": metadata,
        "spec": {"parameters": {"environment": "dev", **parameters}},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("asked", "ttl"),
    [
        pytest.param(claim(), "", id="for ever"),
        pytest.param(claim(ttl="2h"), "2h", id="the field"),
        pytest.param(claim("168h"), "168h", id="the annotation"),
        pytest.param(claim("168h", ttl="2h"), "2h", id="the field before the annotation"),
        pytest.param(claim(environment="pr-7"), "168h", id="a preview"),
        pytest.param(claim("24h", environment="pr-7"), "24h", id="the annotation of a preview"),
        pytest.param(claim("a week", environment="pr-7"), "168h", id="no span of time"),
        pytest.param(claim("24h", {"compositionRevision": "v1"}), "", id="of the first revision"),
        pytest.param(claim("", {"compositionRevision": "v1"}, environment="pr-7"), "", id="an older preview"),
    ],
)
def test_how_long_a_database_lives(asked: Object, ttl: str) -> None:
    assert terms.ttl(asked, Platform()) == ttl


def test_previews_live_as_long_as_the_platform_file_says() -> None:
    assert terms.ttl(claim(environment="pr-7"), settings.parse("previews: {ttl: 48h}")) == "48h"


@pytest.mark.parametrize(
    ("asked", "is_protected"),
    [
        pytest.param(claim(), False, id="dev"),
        pytest.param(claim(environment="production"), True, id="production"),
        pytest.param(claim(environment="prod"), True, id="by an alias"),
        pytest.param(claim(environment="production", deletionProtection=False), False, id="taken off"),
        pytest.param(claim(deletionProtection=True), True, id="asked for"),
    ],
)
def test_what_protects_a_database(asked: Object, is_protected: bool) -> None:
    assert bool(terms.protected_by(asked, Platform())) is is_protected


def at(minutes: float, asked: Object, ttl: str = "1h", protection: str = "") -> expiry.Expiry:
    found = expiry.of(asked, CREATED + datetime.timedelta(minutes=minutes), ttl=ttl, protection=protection)
    assert found is not None
    return found


def announced(minutes: float) -> Object:
    moment = (CREATED + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"type": "Expiring", "status": "True", "reason": "EndOfLife", "message": "", "lastTransitionTime": moment}
    return claim(status={"conditions": [told]})


def test_a_preview_whose_time_came_while_the_platform_was_down_goes_five_minutes_after_the_start() -> None:
    first = at(6000, claim())
    assert (first.is_due, first.look_again) == (False, 300.0)
    assert at(6005, announced(6000)).is_due


def test_a_ttl_shorter_than_the_notice_ends_five_minutes_after_it_was_announced_and_not_later() -> None:
    assert at(0, claim(), ttl="1m").look_again == 300.0
    assert not at(4, announced(0), ttl="1m").is_due
    assert at(5, announced(0), ttl="1m").is_due, "however often it is looked at meanwhile"


def test_what_is_protected_stays() -> None:
    found = at(6000, announced(5000), protection="the environment production")

    assert not found.is_due
    assert found.condition is not None
    assert found.condition.reason == "Protected"

"""Selectors select what kube-apiserver's would."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import errors, selectors

LABELS = {"app": "web", "tier": "front", "size": "5", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app",
        "app=web",
        "app==web",
        "app!=db",
        "other!=x",
        "app in (web, db)",
        "app notin (db)",
        "other notin (db)",
        "!other",
        "! other",
        "size>4",
        "size<6",
        "empty=",
        "empty in (,x)",
        "app=web,tier=front , !other",
    ],
)
def test_selects(text: str) -> None:
    assert selectors.parse_labels(text).matches(LABELS)


@pytest.mark.parametrize(
    "text", ["other", "app=db", "app!=web", "app in (db)", "app notin (web,db)", "!app", "size>5", "app>1", "app,other"]
)
def test_does_not_select(text: str) -> None:
    assert not selectors.parse_labels(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        "a b",
        "a in b",
        "a in (b",
        "a=b=c",
        "=b",
        "a>x",
        "-a",
        "a=-b",
        "a/b/c=d",
        "!",
        "a in",
        "A_/b",
        "a=" + "x" * 64,
    ],
)
def test_nonsense_is_a_bad_request(text: str) -> None:
    with pytest.raises(errors.BadRequest):
        selectors.parse_labels(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in (", "found '', expected: ',', ')' or identifier"),
        ("a in (=)", "found '=', expected: ',', ')' or identifier"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a in (b,", "found '', expected: ',', or identifier"),
        ("a in (b,,)", "found ')', expected: ',', or identifier"),
    ],
)
def test_a_set_that_does_not_end_is_told_as_upstream_tells_it(text: str, message: str) -> None:
    with pytest.raises(errors.BadRequest, match=re.escape(message)):
        selectors.parse_labels(text)


@given(st.text(alphabet="ab=!()<>, in/-", max_size=12))
def test_any_text_parses_or_is_a_bad_request(text: str) -> None:
    for parse in (selectors.parse_labels, selectors.parse_fields):
        try:
            parse(text)
        except errors.BadRequest:
            continue


def test_selector_object() -> None:
    selector = selectors.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front", "back"]},
                {"key": "other", "operator": "DoesNotExist"},
            ],
        }
    )
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})
    assert selectors.from_object({}).matches({})
    assert not selectors.from_object(None).matches({})
    with pytest.raises(errors.BadRequest):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_field_selector() -> None:
    fields = {"metadata.name": "a", "status.phase": "Running", "spec.x": "a,b=c"}

    def value_of(field: str) -> str:
        return fields.get(field, "")

    assert selectors.parse_fields("metadata.name=a,status.phase!=Failed").matches(value_of)
    assert selectors.parse_fields(r"spec.x=a\,b\=c").matches(value_of)
    assert not selectors.parse_fields("metadata.name==b").matches(value_of)
    assert selectors.parse_fields("metadata.name=a").exact("metadata.name") == "a"
    assert not selectors.parse_fields("")
    for bad in ("metadata.name", "=a", "a=b=c", r"a=\x"):
        with pytest.raises(errors.BadRequest):
            selectors.parse_fields(bad)


def test_labels_format_as_a_selector() -> None:
    assert selectors.format_labels({"b": "2", "a": "1"}) == "a=1,b=2"

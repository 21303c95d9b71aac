"""YAML bodies mean what go-yaml makes of them, and are refused in its words."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.server.bodies import bodies, yamlbodies


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True), ("No", False), ("on", True), ("null", None), ("~", None), ("1e3", 1000.0), ("12:30", "12:30"),
        ("010", 8), ("0x1F", 31), ("1_000", 1000), (".5", 0.5), ("2020-01-01", "2020-01-01"), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars(text: str, value: Any) -> None:
    assert yamlbodies.load(f"a: {text}".encode(), 9) == ({"a": value}, ())


def test_the_first_document_counts() -> None:
    assert yamlbodies.load(b"a: 1\n---\nb: 2\n", 9)[0] == {"a": 1}
    assert yamlbodies.load(b"", 9) == (None, ())


def test_keys_given_twice_are_told_with_their_lines() -> None:
    value, repeated = yamlbodies.load(b"a: 1\nb:\n  c: 1\n  c: {d: 1, d: 2}\na: 2\n", 9)
    assert value == {"a": 2, "b": {"c": {"d": 2}}}
    assert repeated == (
        'line 4: key "d" already set in map',
        'line 4: key "c" already set in map',
        'line 5: key "a" already set in map',
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [\n", "yaml: line 1: did not find expected node content"),
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("\tx: 1", "yaml: found character that cannot start any token"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("a: .inf", "json: unsupported value: +Inf"),
    ],
)
def test_broken_texts(text: str, problem: str) -> None:
    with pytest.raises(bodies.Unreadable) as raised:
        yamlbodies.load(text.encode(), 9)
    assert str(raised.value) == problem

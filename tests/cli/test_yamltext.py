"""YAML as PyYAML writes it, sooner, and without aliases."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.cli import yamltext
from steelyard.kube import plainyaml

TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["y", "No", "ON", "TRUE", "null", "Null", "~", "", "1e3", "1.5", "0x1f", "2001-01-01", "dev-md-0"]),
    st.sampled_from(["a: b", "- x", "#", "a #b", "key ", "a\nb", "é", "%", "x" * 200, "steelyard.dev/claim-name"]),
    st.from_regex(r"[A-Za-z][A-Za-z0-9_./-]{0,12}", fullmatch=True),
)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@example("\x85")
@example(["a\x85b\n", {"\x85": "\u2028"}])
@given(value=VALUES)
def test_it_is_what_pyyaml_writes_and_reads_as_what_it_was(value: Any) -> None:
    written = yamltext.of({"value": value})
    dumper: Any = yamltext._Dumper  # pyright: ignore[reportPrivateUsage] (what it must equal)
    assert written == yaml.dump({"value": value}, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1000)
    assert yaml.safe_load(written) == {"value": value}


def test_what_is_there_twice_is_written_twice() -> None:
    shared = [{"name": "a"}]
    for value in ({"one": shared, "other": shared}, {"one": shared, "other": shared, "text": "a\nb"}):
        assert plainyaml.load(yamltext.of(value)) == value

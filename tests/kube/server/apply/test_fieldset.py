"""The algebra of field sets, checked against plain sets of paths; and their form on the wire."""

from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube.server.apply import fieldset
from steelyard.kube.server.apply.fieldset import FieldSet, InvalidFields, Path

_ELEMENTS: Final = [
    "f:a",
    "f:b",
    "f:spec",
    'k:{"name":"x"}',
    'k:{"port":80}',
    'k:{"port":443}',
    'v:"s"',
    "v:9",
    "v:10",
    "i:3",
]
_PATHS: Final = st.lists(st.sampled_from(_ELEMENTS), min_size=1, max_size=4).map(tuple)


def _of(paths: set[Path]) -> FieldSet:
    tree: dict[str, Any] = {}
    for path in paths:
        node: dict[str, Any] = {}
        for element in reversed(path):
            node = {element: node}
        tree = fieldset.union(tree, node)
    return FieldSet(tree)


_SETS: Final = st.sets(_PATHS, max_size=8)


@given(_SETS)
def test_a_set_holds_exactly_its_paths(paths: set[Path]) -> None:
    built = _of(paths)
    listed = list(built.paths())
    assert set(listed) == paths
    assert len(listed) == len(paths)
    assert all(path in built for path in paths)
    assert bool(built) == bool(paths)


@given(_SETS, _SETS)
def test_operations_are_those_of_sets_of_paths(left: set[Path], right: set[Path]) -> None:
    ours, theirs = _of(left), _of(right)
    before = orjson.dumps([ours.tree, theirs.tree])
    assert ours.union(theirs) == _of(left | right)
    assert ours.intersection(theirs) == _of(left & right)
    assert ours.difference(theirs) == _of(left - right)
    below = {path for path in left if any(path[: len(prefix)] == prefix for prefix in right)}
    assert ours.recursive_difference(theirs) == _of(left - below)
    assert orjson.dumps([ours.tree, theirs.tree]) == before


@given(_SETS)
def test_leaves_have_nothing_below_them(paths: set[Path]) -> None:
    inner = {path for path in paths if any(other[: len(path)] == path and other != path for other in paths)}
    assert _of(paths).leaves() == _of(paths - inner)


@given(_SETS, _SETS, _SETS)
def test_laws(a: set[Path], b: set[Path], c: set[Path]) -> None:
    x, y, z = _of(a), _of(b), _of(c)
    assert x.union(y) == y.union(x)
    assert x.union(y.union(z)) == x.union(y).union(z)
    assert x.intersection(y.union(z)) == x.intersection(y).union(x.intersection(z))
    assert x.difference(y.union(z)) == x.difference(y).difference(z)
    assert x.difference(y).union(x.intersection(y)) == x
    assert x.difference(x) == FieldSet()


@given(_SETS)
def test_wire_form_is_read_back_the_same_and_in_the_same_order(paths: set[Path]) -> None:
    built = _of(paths)
    wire = orjson.dumps(built.to_json())
    again = FieldSet.from_json(orjson.loads(wire))
    assert orjson.dumps(again.to_json()) == wire
    shuffled = orjson.dumps(built.to_json(), option=orjson.OPT_SORT_KEYS)
    assert orjson.dumps(FieldSet.from_json(orjson.loads(shuffled)).to_json()) == wire


def test_elements_are_written_in_upstreams_order() -> None:
    fields = FieldSet.from_json({
        "i:1": {}, "v:10": {}, "v:9": {}, 'v:"a"': {}, "v:true": {}, 'k:{"port":443}': {}, 'k:{"port":80}': {},
        'k:{"port":80,"protocol":"UDP"}': {}, 'k:{"name":"z"}': {}, "f:b": {}, "f:a": {".": {}, "f:x": {}},
    })  # fmt: skip
    assert list(fields.to_json()) == [
        "f:a", "f:b", 'k:{"name":"z"}', 'k:{"port":80}', 'k:{"port":80,"protocol":"UDP"}', 'k:{"port":443}',
        "v:9", "v:10", 'v:"a"', "v:true", "i:1",
    ]  # fmt: skip


def test_keys_are_brought_into_one_form() -> None:
    fields = FieldSet.from_json({'k:{ "protocol": "TCP", "port": 80 }': {"f:name": {}, "z:later": {}}})
    assert fields.to_json() == {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([], id="a list"),
        pytest.param("x", id="a text"),
        pytest.param({"f:a": 1}, id="a number for a node"),
        pytest.param({"f:a": []}, id="a list for a node"),
        pytest.param({"spec": {}}, id="no kind of element"),
        pytest.param({"x": {}}, id="too short"),
        pytest.param({"k:x": {}}, id="keys that are no JSON"),
        pytest.param({"k:[1]": {}}, id="keys that are no object"),
        pytest.param({"v:": {}}, id="no value"),
        pytest.param({"i:x": {}}, id="index that is none"),
    ],
)
def test_what_is_no_field_set_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidFields):
        FieldSet.from_json(fields)


def test_absurdly_deep_nesting_is_refused() -> None:
    fields: dict[str, Any] = {}
    for _ in range(300):
        fields = {"f:a": fields}
    with pytest.raises(InvalidFields, match="deep"):
        FieldSet.from_json(fields)


def test_paths_are_written_as_upstream_writes_them() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:tags", 'v:"a"', "i:2")
    assert fieldset.text(path) == '.spec.ports[port=80,protocol="TCP"].tags[="a"][2]'


def test_sets_of_field_names() -> None:
    fields = FieldSet.of(("status",), ("metadata", "name"))
    assert fields.to_json() == {"f:metadata": {"f:name": {}}, "f:status": {}}
    assert ("f:metadata",) not in fields
    assert () not in fields

"""What expressions give: the language itself, with its rules for errors, numbers and absent values."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.cel import loops, problems, program, types
from steelyard.kube.cel.types import Field, Type

SELF = Type(
    "object",
    name="selfType",
    fields={
        "count": Field("count", types.INT),
        "name": Field("name", types.STRING),
        "my__dash__name": Field("my-name", types.STRING),
        "missing": Field("missing", types.STRING),
        "nothing": Field("nothing", types.STRING),
        "list": Field("list", types.list_of(types.STRING)),
        "map": Field("map", types.map_of(types.STRING, types.INT)),
        "either": Field("either", types.DYN),
        "set": Field("set", Type("list", (types.STRING,), list_kind="set")),
        "size": Field("size", Type("double", convert=float)),
    },
)
VALUE = {
    "count": 3, "name": "hello", "my-name": "dashed", "nothing": None, "list": ["a", "b", "c"], "map": {"x": 1},
    "either": "50%", "set": ["q", "r"], "size": 2,
}  # fmt: skip


def run(source: str) -> Any:
    return program.compile_(source, {"self": SELF, "oldSelf": SELF})(VALUE, VALUE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("self.count + 1 == 4", id="arithmetic"),
        pytest.param("7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1", id="whole-division-goes-towards-zero"),
        pytest.param("1 + 2 * 3 - 4 / 2 == 5", id="precedence"),
        pytest.param("!false && !!true && - -1 == 1", id="signs-may-repeat"),
        pytest.param("dyn(1) == 1.0 && dyn(1u) == 1 && 1 < 1.5", id="numbers-compare-across-kinds"),
        pytest.param("dyn(1) != dyn('1') && dyn(true) != dyn(1)", id="other-kinds-are-not-equal"),
        pytest.param("self.missing == 'a' || self.count == 3", id="or-absorbs-an-error-on-the-left"),
        pytest.param("self.count == 3 || self.missing == 'a'", id="or-absorbs-an-error-on-the-right"),
        pytest.param("!(self.missing == 'a' && self.count == 4)", id="and-absorbs-an-error"),
        pytest.param("['a', 'b'].exists(x, self.map[x] == 1 || x == 'b')", id="exists-absorbs-an-error"),
        pytest.param("!['x', 'y'].all(x, self.map[x] == 2)", id="all-absorbs-an-error"),
        pytest.param("has(self.name) && !has(self.missing)", id="has"),
        pytest.param("has(self.map.x) && !has(self.map.y)", id="has-on-maps"),
        pytest.param("self.my__dash__name == 'dashed'", id="escaped-names"),
        pytest.param("self.list.map(x, x + '!') == ['a!', 'b!', 'c!']", id="map"),
        pytest.param("self.list.map(x, x != 'b', x + x) == ['aa', 'cc']", id="map-with-condition"),
        pytest.param("self.list.filter(x, x > 'a').size() == 2", id="filter"),
        pytest.param("self.map.all(k, k == 'x') && self.map.all(k, v, v == 1)", id="maps-give-keys-or-pairs"),
        pytest.param("self.list.exists_one(x, x == 'a') && self.list.existsOne(i, x, i == 1)", id="exists-one"),
        pytest.param("self.list.transformList(i, x, i > 0, x) == ['b', 'c']", id="transform-list"),
        pytest.param("self.map.transformMap(k, v, v + 1) == {'x': 2}", id="transform-map"),
        pytest.param("self.map.transformMapEntry(k, v, {v: k}) == {1: 'x'}", id="transform-map-entry"),
        pytest.param("[1, 2].all(x, [3, 4].all(y, x < y))", id="nested-macros-keep-their-variables"),
        pytest.param("self.set == ['r', 'q']", id="sets-ignore-order"),
        pytest.param("self.set + ['q', 's'] == ['q', 'r', 's']", id="sets-add-what-they-lack"),
        pytest.param("self.set + ['s'] == ['s', 'r', 'q']", id="a-sum-of-sets-is-a-set"),
        pytest.param("!has(self.nothing) && !self.?nothing.hasValue()", id="null-is-absent"),
        pytest.param("type(self.either) == string && type(self.count) == int", id="types-as-values"),
        pytest.param("type(self.either) == int ? self.either < 5 : self.either.endsWith('%')", id="int-or-string"),
        pytest.param("self.size / 4.0 == 0.5", id="a-whole-number-where-the-schema-says-number"),
        pytest.param("self.?missing.orValue('d') == 'd' && self.?name.value() == 'hello'", id="optional-fields"),
        pytest.param("self.map[?'y'] == optional.none() && self.list[?0].hasValue()", id="optional-index"),
        pytest.param("[?self.?missing, 'z'] == ['z'] && {?'a': self.?missing} == {}", id="optional-entries"),
        pytest.param("self.?name.optMap(n, n.size()).orValue(0) == 5", id="optional-map"),
        pytest.param("optional.ofNonZeroValue('') == optional.none()", id="zero-values-are-none"),
        pytest.param(r"'\u00e9\x41\101\n'.size() == 4 && r'\d' == '\\d'", id="escapes-in-texts"),
        pytest.param("'''a'b''' == \"a'b\" && b'\\xff'.size() == 1", id="kinds-of-quotes"),
        pytest.param("0x10 == 16 && 1e3 == 1000.0 && 1u + 1u == 2u", id="numbers"),
        pytest.param("true // comment\n && true", id="comments"),
        pytest.param("-9223372036854775808 < 9223372036854775807", id="the-ends-of-int"),
    ],
)
def test_it_is_true(source: str) -> None:
    assert run(source) is True


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("self.missing == 'a'", "no such key: missing", id="absent-field"),
        pytest.param("self.nothing == 'a'", "no such key: nothing", id="null-field"),
        pytest.param("self.map['y'] == 1", "no such key: y", id="absent-key"),
        pytest.param("self.list[3] == 'a'", "index out of bounds: 3", id="beyond-the-list"),
        pytest.param("1 / 0 == 1", "division by zero", id="division-by-zero"),
        pytest.param("1 % 0 == 1", "modulus by zero", id="modulus-by-zero"),
        pytest.param("9223372036854775807 + 1 > 0", "integer overflow", id="overflow"),
        pytest.param("1u - 2u == 0u", "unsigned integer overflow", id="below-zero"),
        pytest.param("self.either < 5", "no such overload", id="wrong-type-of-a-dynamic-value"),
        pytest.param("optional.none().value() == 1", "optional.none() dereference", id="absent-optional"),
        pytest.param("int('x') == 1", "type conversion error from 'string' to 'int'", id="not-a-number"),
        pytest.param("[].map(x, x).min() == 1", "min called on empty list", id="extreme-of-nothing"),
        pytest.param("'abc'.substring(4) == ''", "index out of range: 4", id="beyond-the-text"),
        pytest.param("{'a': 1, 'a': 2}.a == 1", "Failed with repeated key a", id="key-given-twice"),
    ],
)
def test_it_fails_while_running(source: str, text: str) -> None:
    with pytest.raises(problems.EvaluationError) as caught:
        run(source)
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("self.zz", "1:5: undefined field 'zz'\n | self.zz\n | ....^", id="unknown-field"),
        pytest.param(
            "self.count == 'x'",
            "1:12: found no matching overload for '_==_' applied to '(int, string)'\n"
            " | self.count == 'x'\n | ...........^",
            id="types-that-never-match",
        ),
        pytest.param(
            "self.name.contains(1)",
            "1:19: found no matching overload for 'contains' applied to 'string.(int)'\n"
            " | self.name.contains(1)\n | ..................^",
            id="wrong-argument",
        ),
        pytest.param("foo", "1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^", id="unknown-name"),
        pytest.param(
            "foo(1)", "1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^", id="unknown-function"
        ),
        pytest.param(
            "self.count.a",
            "1:11: type 'int' does not support field selection\n | self.count.a\n | ..........^",
            id="field-of-a-number",
        ),
        pytest.param(
            "true && self.count",
            "1:13: expected type 'bool' but found 'int'\n | true && self.count\n | ............^",
            id="number-as-a-condition",
        ),
        pytest.param(
            "self.count.all(x, true)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n"
            " | self.count.all(x, true)\n | ....^",
            id="macro-on-a-number",
        ),
        pytest.param(
            "[1, 'a']", "1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^", id="mixed-list"
        ),
        pytest.param(
            "duration('1x')",
            "1:10: invalid duration argument\n | duration('1x')\n | .........^",
            id="duration-that-cannot-be-read",
        ),
        pytest.param(
            "'a'.matches('[')",
            "1:13: invalid matches argument\n | 'a'.matches('[')\n | ............^",
            id="pattern-that-cannot-be-read",
        ),
        pytest.param("self.list.all(1, true)", "1:15: argument is not an identifier\n | self.list.all(1, true)\n"
                     " | ..............^", id="no-name-for-the-variable"),
        pytest.param("has(self)", "1:5: invalid argument to has() macro\n | has(self)\n | ....^", id="has-of-nothing"),
        pytest.param("1 ==", "1:5: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', "
                     "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n"
                     " | 1 ==\n | ....^", id="unfinished"),
        pytest.param("9223372036854775808", "1:1: invalid int literal\n | 9223372036854775808\n | ^", id="too-large"),
        pytest.param("a b", "1:3: Syntax error: extraneous input 'b' expecting <EOF>\n | a b\n | ..^", id="too-much"),
    ],
)  # fmt: skip
def test_it_does_not_compile(source: str, text: str) -> None:
    with pytest.raises(problems.CompileError) as caught:
        run(source)
    assert str(caught.value) == f"ERROR: <input>:{text}"


def test_every_problem_is_told_in_order() -> None:
    with pytest.raises(problems.CompileError) as caught:
        run("self.a == 1 ||\n self.b == 2")
    assert str(caught.value) == (
        "ERROR: <input>:1:5: undefined field 'a'\n | self.a == 1 ||\n | ....^\n"
        "ERROR: <input>:2:6: undefined field 'b'\n |  self.b == 2\n | .....^"
    )


def test_an_expression_that_goes_on_for_too_long_is_stopped() -> None:
    many = program.compile_("self.all(a, self.all(b, a >= 0 && b >= 0))", {"self": types.list_of(types.INT)})
    side = int(loops.MOST_STEPS**0.5) + 1
    with pytest.raises(problems.CostExceeded, match="actual cost limit exceeded"):
        many([1] * side)


def test_an_expression_nested_too_deeply_is_refused() -> None:
    with pytest.raises(problems.CompileError, match="recursion limit exceeded"):
        run("(" * 300 + "true" + ")" * 300)

"""The functions of CEL and of Kubernetes, each held to what upstream's give."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.cel import problems, program


def run(source: str) -> Any:
    return program.compile_(source, {})()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')", id="parts"),
        pytest.param("'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == ''", id="char-at"),
        pytest.param("'hello mellow'.indexOf('ello', 2) == 7 && 'hello'.indexOf('jello') == -1", id="index-of"),
        pytest.param("'hello mellow'.lastIndexOf('ello', 6) == 1 && 'hello'.lastIndexOf('') == 5", id="last-index-of"),
        pytest.param("'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'é'.upperAscii() == 'é'", id="only-ascii-changes-case"),
        pytest.param("'hello hello'.replace('he', 'we', 1) == 'wello hello'", id="replace"),
        pytest.param("'a b c'.split(' ', 2) == ['a', 'b c'] && 'ab'.split('') == ['a', 'b']", id="split"),
        pytest.param("'tacocat'.substring(0, 4) == 'taco' && 'tacocat'.substring(4) == 'cat'", id="substring"),
        pytest.param("' \\ttrim\\n '.trim() == 'trim' && ['x', 'y'].join('-') == 'x-y'", id="trim-and-join"),
        pytest.param("strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'", id="quote"),
        pytest.param(
            "'%s %d %.2f %x %b %o %%'.format(['a', 1, 2.5, 255, 5, 8]) == 'a 1 2.50 ff 101 10 %'", id="format"
        ),
        pytest.param("'%s'.format([['a', 1]]) == '[\"a\", 1]' && '%f'.format([1234.5]) == '1,234.500000'", id="shown"),
        pytest.param("'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''", id="find"),
        pytest.param(
            "'123 abc 456'.findAll('[0-9]+', 1) == ['123'] && '1 2'.findAll('[0-9]') == ['1', '2']", id="find-all"
        ),
        pytest.param("'abc'.matches('^[a-c]+$') && !'abd'.matches('^[a-c]+$')", id="matches"),
        pytest.param(
            "[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [duration('1s'), duration('1m')].isSorted()", id="sorted"
        ),
        pytest.param(
            "[1, 2].sum() == 3 && [1.5].sum() == 1.5 && [duration('1s'), duration('1s')].sum() == duration('2s')",
            id="sum",
        ),
        pytest.param(
            "['a', 'b', 'b'].indexOf('b') == 1 && ['a', 'b', 'b'].lastIndexOf('b') == 2", id="position-in-list"
        ),
        pytest.param("[3, 1].min() == 1 && ['a', 'b'].max() == 'b'", id="extremes"),
        pytest.param(
            "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])", id="sets"
        ),
        pytest.param("duration('1h30m').getMinutes() == 90 && string(duration('1.5s')) == '1.5s'", id="durations"),
        pytest.param("timestamp('2000-02-29T12:00:00.5Z').getDayOfMonth() == 28", id="parts-of-a-time"),
        pytest.param("timestamp('2000-01-01T00:00:00Z').getHours('+02:00') == 2", id="time-zone"),
        pytest.param(
            "timestamp('2000-01-02T00:00:00Z') - timestamp('2000-01-01T00:00:00Z') == duration('24h')", id="times"
        ),
        pytest.param(
            "string(timestamp('2000-01-01T01:00:00+01:00')) == '2000-01-01T01:00:00+01:00'", id="text-of-a-time"
        ),
        pytest.param(
            "int('-5') == -5 && double('1e3') == 1000.0 && bool('true') && string(true) == 'true'", id="conversions"
        ),
        pytest.param(
            "string(1.5) == '1.5' && string(1234567.5) == '1.2345675e+06' && string(1e5) == '100000'",
            id="text-of-a-number",
        ),
        pytest.param(
            "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1000m') == quantity('1')", id="quantities"
        ),
        pytest.param("quantity('50k').add(20).sub(quantity('20')) == quantity('50000')", id="adding-quantities"),
        pytest.param(
            "quantity('1.5').asApproximateFloat() == 1.5 && !quantity('1.5').isInteger() && isQuantity('20Mi')",
            id="amounts",
        ),
        pytest.param(
            "!isQuantity('20 Mi') && !isQuantity('Mi') && quantity('1e3').asInteger() == 1000", id="forms-of-quantities"
        ),
        pytest.param(
            "isIP('::1') && !isIP('127.0.0.256') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
            id="ip",
        ),
        pytest.param(
            "ip('10.0.0.1').family() == 4 && ip('127.0.0.1').isLoopback() && string(ip('::0')) == '::'",
            id="kinds-of-ip",
        ),
        pytest.param(
            "ip.isCanonical('::1') && !ip.isCanonical('::01') && ip('10.0.0.1').isGlobalUnicast()", id="canonical-ip"
        ),
        pytest.param("ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()", id="link-local"),
        pytest.param(
            "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
            id="cidr",
        ),
        pytest.param(
            "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/64').prefixLength() == 64", id="masked"
        ),
        pytest.param(
            "!isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && string(cidr('10.1.2.3/8').ip()) == '10.1.2.3'",
            id="no-cidr",
        ),
        pytest.param("url('https://u@[::1]:80/a%20b?k=1&k=2').getHostname() == '::1'", id="host-of-a-url"),
        pytest.param("url('https://x.y:80/a%20b?k=1&k=2').getQuery() == {'k': ['1', '2']}", id="query-of-a-url"),
        pytest.param(
            "url('https://x.y:80/a b').getEscapedPath() == '/a%20b' && url('/p').getScheme() == ''", id="path-of-a-url"
        ),
        pytest.param("isURL('https://x') && isURL('/abs') && !isURL('rel') && !isURL('')", id="is-url"),
        pytest.param(
            "semver('1.2.3-a.1').isLessThan(semver('1.2.3')) && semver('1.10.0').compareTo(semver('1.9.0')) == 1",
            id="semver",
        ),
        pytest.param(
            "isSemver('v1.2', true) && !isSemver('v1.2') && semver('v01.2', true).patch() == 0", id="tolerant-semver"
        ),
        pytest.param(
            "!isSemver('1.2.03') && isSemver('1.2.3+build.5') && semver('1.2.3').major() == 1", id="strict-semver"
        ),
        pytest.param(
            "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue()",
            id="formats",
        ),
        pytest.param(
            "format.named('uuid').value().validate('x').value() == ['does not match the UUID format']",
            id="named-format",
        ),
        pytest.param(
            "!format.named('unknown').hasValue() && !format.labelValue().validate('').hasValue()", id="unknown-format"
        ),
        pytest.param(
            "[optional.of(1), optional.none()].unwrapOpt() == [1] && [1, 2].last().value() == 2",
            id="lists-of-optionals",
        ),
    ],
)
def test_it_is_true(source: str) -> None:
    assert run(source) is True


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param(
            "ip('x')",
            'IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP',
            id="ip",
        ),
        pytest.param(
            "ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed', id="mapped-ip"
        ),
        pytest.param(
            "quantity('Mi')",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="quantity",
        ),
        pytest.param("quantity('1.5').asInteger()", "cannot convert value to integer", id="no-integer"),
        pytest.param("semver('1')", "No Major.Minor.Patch elements found", id="semver"),
        pytest.param(
            "url('rel')",
            'URL parse error during conversion from string: parse "rel": invalid URI for request',
            id="url",
        ),
        pytest.param(
            "'%d'.format(['a'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
            id="format",
        ),
        pytest.param("'%s %s'.format(['a'])", "error during formatting: index 1 out of range", id="too-few-arguments"),
    ],
)
def test_it_fails(source: str, text: str) -> None:
    with pytest.raises(problems.EvaluationError) as caught:
        run(source)
    assert caught.value.text == text

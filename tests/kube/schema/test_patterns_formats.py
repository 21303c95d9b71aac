import random
import time

import pytest

from steelyard.kube import effort
from steelyard.kube.schema import formats, patterns

MATCHES: list[tuple[str, str, str, bool]] = [
    ("dollar is the very end", "^a$", "a\n", False),
    ("dollar is the end of a line in multi-line mode", "(?m)^a$", "a\nb", True),
    ("a flag may follow an anchor", "^(?i)(abort|warn)?$", "ABORT", True),
    ("a flag set inside a group ends with it", "^((?i)a)b$", "Ab", True),
    ("and does not reach beyond it", "^((?i)a)b$", "AB", False),
    ("digits are ASCII", r"^\d$", "٣", False),
    ("unicode category", r"^\pL+$", "äß", True),
    ("negated unicode category", r"^\PC*$", "text", True),
    ("control characters are in C", r"^\PC*$", "a\x07", False),
    ("category in a class", r"^[\p{Lu}_]+$", "A_", True),
    ("POSIX class", "^[[:alpha:]]+$", "abc", True),
    ("negated POSIX class", "^[[:^digit:]]+$", "a1", False),
    ("quoted text", r"^\Qa.b\E$", "a.b", True),
    ("quoted text is literal", r"^\Qa.b\E$", "axb", False),
    ("braces that are no repetition", "^a{,2}$", "a{,2}", True),
    ("end of text", r"a\z", "ba", True),
    ("named group", "^(?<x>a)(?P<y>b)$", "ab", True),
    ("bracket inside a class", "^[[a]+$", "[a", True),
    ("dash at the end of a class", "^[a-c-]+$", "b-", True),
    ("two ampersands in a class", "^[&&|]+$", "&|", True),
    ("hexadecimal code point", r"^\x{41}\x42$", "AB", True),
    ("scoped flags", "^(?i:a)b$", "Ab", True),
    ("no match without anchors needed", "b", "abc", True),
    ("a script", r"^\p{Greek}+$", "αβγ", True),
    ("swapped greed", "(?U)^a+$", "aaa", True),
    ("case folds beyond ASCII", "(?i)^\u017f$", "S", True),
]


@pytest.mark.parametrize("pattern,text,expected", [case[1:] for case in MATCHES], ids=[case[0] for case in MATCHES])
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, expected: bool) -> None:
    assert patterns.compiled(pattern).matches(text) is expected


REFUSED: list[tuple[str, str]] = [
    ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
    (r"(a)\1", r"invalid escape sequence: `\1`"),
    (r"\C", r"invalid escape sequence: `\C`"),
    (r"\Z", r"invalid escape sequence: `\Z`"),
    ("a**", "invalid nested repetition operator: `**`"),
    ("*a", "missing argument to repetition operator: `*`"),
    ("(a", "missing closing ): `(a`"),
    ("a)", "unexpected ): `a)`"),
    ("x[a", "missing closing ]: `[a`"),
    ("[z-a]", "invalid character class range: `z-a`"),
    (r"\p{Nowhere}", r"invalid character class range: `\p{Nowhere}`"),
    ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
    ("a{1001}", "invalid repeat count: `{1001}`"),
    ("(a{500}){500}", "invalid repeat count: `{500}`"),
    ("(?P<n-x>a)", "invalid named capture: `(?P<n-x>`"),
    ("a\\", "trailing backslash at end of expression: ``"),
    ("a" * 70_000, "expression too large"),
    ("[a-z]{1000}" * 500, "expression too large"),
]


@pytest.mark.parametrize("pattern,problem", REFUSED, ids=[case[0][:20] for case in REFUSED])
def test_what_go_refuses_is_refused_in_its_words(pattern: str, problem: str) -> None:
    with pytest.raises(patterns.BadPattern) as refused:
        patterns.compiled(pattern)
    assert str(refused.value) == f"error parsing regexp: {problem}"


FOUND: list[tuple[str, str, list[str]]] = [
    ("a*", "baaac", ["", "aaa", ""]),
    ("", "äb", ["", "", ""]),
    ("ä|b", "xäbä", ["ä", "b", "ä"]),
    (r"\b", "ab cd", ["", "", "", ""]),
]


@pytest.mark.parametrize("pattern,text,expected", FOUND)
def test_all_matches_are_those_that_go_finds(pattern: str, text: str, expected: list[str]) -> None:
    assert patterns.compiled(pattern).find_all(text) == expected
    assert patterns.compiled(pattern).find_all(text, 1) == expected[:1]
    assert patterns.compiled(pattern).find(text) == expected[0]


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a?){30}a{30}$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_pattern_takes_more_than_its_size_times_the_text(pattern: str) -> None:
    before = time.thread_time()
    patterns.compiled(pattern).matches("a" * 10_000 + "!")
    assert time.thread_time() - before < 1


def test_a_text_is_refused_that_is_too_long_for_its_pattern() -> None:
    with pytest.raises(patterns.TooLong):
        patterns.compiled("(a?b?){1000}c").matches("ab" * 10_000)


def test_many_matches_are_stopped_when_they_have_taken_too_long() -> None:
    slow = patterns.compiled("(a|b)*a(a|b){200}c")
    text = "".join(random.Random(1).choice("ab") for _ in range(5_000))
    with pytest.raises(effort.Exhausted), effort.LIMITED:
        any(slow.matches(text) for _ in range(1_000))


def test_patterns_are_kept_by_their_bytes() -> None:
    for number in range(2_000):
        patterns.compiled(f"^{number}$")
    assert patterns.KEPT.bytes <= 64 * 1024 * 1024
    assert patterns.compiled("^1999$") is patterns.compiled("^1999$")


FORMATS: list[tuple[str, str, bool]] = [
    ("ipv4", "10.0.0.1", True),
    ("ipv4", "010.0.0.1", True),
    ("ipv4", "10.0.0.256", False),
    ("ipv6", "fe80::1", True),
    ("ipv6", "10.0.0.1", False),
    ("cidr", "10.0.0.0/8", True),
    ("cidr", "10.0.0.0", False),
    ("cidr", "10.0.0.0/33", False),
    ("date", "2024-02-29", True),
    ("date", "2023-02-29", False),
    ("date-time", "2024-02-29T10:11:12Z", True),
    ("date-time", "2024-02-28T10:11:12.123+02:00", True),
    ("date-time", "2024-02-28T10:11:12", False),
    ("date-time", "2023-02-30T10:11:12Z", False),
    ("date-time", "2023-02-03T25:11:12Z", False),
    ("duration", "1h30m", True),
    ("duration", "5 days", True),
    ("duration", "soon", False),
    ("uri", "https://example.com/a?b", True),
    ("uri", "/path", True),
    ("uri", "not a uri", False),
    ("email", "a@example.com", True),
    ("email", "nobody", False),
    ("hostname", "node-1.example.com", True),
    ("hostname", "node_1", False),
    ("mac", "01:23:45:67:89:ab", True),
    ("mac", "01:23:45:67:89", False),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", True),
    ("uuid4", "123e4567-e89b-12d3-a456-426614174000", False),
    ("byte", "aGk=", True),
    ("byte", "aGk", False),
    ("isbn", "978-0321751041", True),
    ("isbn", "978-0321751042", False),
    ("hexcolor", "#ffAA00", True),
    ("rgbcolor", "rgb(1,2,256)", False),
    ("ssn", "111-11-1111", True),
    ("creditcard", "4111 1111 1111 1111", True),
    ("creditcard", "4111 1111 1111 1112", False),
    ("password", "", True),
    ("k8s-short-name", "a-b", True),
    ("k8s-short-name", "a.b", False),
    ("k8s-long-name", "a.b", True),
    ("bsonobjectid", "507f1f77bcf86cd799439011", True),
]


@pytest.mark.parametrize("format_,text,expected", FORMATS, ids=[f"{f}:{t}" for f, t, _ in FORMATS])
def test_formats(format_: str, text: str, expected: bool) -> None:
    check = formats.checker(format_)
    assert check is not None
    assert check(text) is expected


def test_unknown_formats_are_not_checked() -> None:
    assert formats.checker("colour") is None

import pytest

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
]


@pytest.mark.parametrize("pattern,text,expected", [case[1:] for case in MATCHES], ids=[case[0] for case in MATCHES])
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, expected: bool) -> None:
    assert (patterns.compiled(pattern).search(text) is not None) is expected


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "a**", "(", "a)", "[a", r"\p{Nowhere}", "a{1001}", "a\\"]
)
def test_what_go_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(patterns.BadPattern):
        patterns.compiled(pattern)


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

"""External Secrets' templates: what is filled in, and what is refused rather than guessed."""

from __future__ import annotations

import pytest

from steelyard.providers.vault.templates import TemplateError, render

VALUES = {
    "user": "a b",
    "password": "p@ss/é",
    "api-url": "https://x",
    "raw": b"\xff\x00".decode(errors="surrogateescape"),
}


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ("plain", "plain"),
        ("{{ .user }}", "a b"),
        ("{{.user}}!", "a b!"),
        ("{{ .user | urlquery }}:{{ .password | urlquery }}", "a+b:p%40ss%2F%C3%A9"),
        ('{{ index . "api-url" }}', "https://x"),
        ('{{ (index . "api-url") | upper }}', "HTTPS://X"),
        ("{{ .user | b64enc }}", "YSBi"),
        ("{{ .raw | b64enc }}", "/wA="),
        ('{{ "YSBi" | b64dec }}', "a b"),
        ("{{ b64enc .user }}", "YSBi"),
        ("x {{- .user -}} y".replace("{{- ", "{{- ").replace(" -}}", " -}}"), "xa by"),
        ("{{ /* a remark */ }}z", "z"),
        ("{{ `{{` }}", "{{"),
    ],
)
def test_values_are_filled_in_as_go_does(template: str, made: str) -> None:
    assert render(template, VALUES) == made


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ .missing }}", "no key missing"),
        ('{{ index . "gone" }}', "no key gone"),
        ("{{ .user | sha256sum }}", "sha256sum is not supported"),
        ("{{ if .user }}x{{ end }}", "if is not supported"),
        ("{{ range . }}{{ end }}", "range is not supported"),
        ("{{ . }}", "name a key"),
        ("{{ .user", "not closed"),
        ("{{ .user | }}", "not complete"),
        ("{{ .user $ }}", "not understood"),
        ("{{ .user .password }}", "not understood"),
        ("{{ .user | .password }}", "only a function"),
        ('{{ "a" | b64dec }}', "not base64"),
    ],
)
def test_what_is_not_known_is_told_and_no_value_with_it(template: str, told: str) -> None:
    with pytest.raises(TemplateError, match=told) as raised:
        render(template, VALUES)
    assert not any(value in str(raised.value) for value in ("a b", "p@ss"))

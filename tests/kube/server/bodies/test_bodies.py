from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import errors
from steelyard.kube.server.bodies.syntax import Unreadable
from steelyard.kube.server.call import PatchType
from tests.kube.server import payloads

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/json", b'{"kind":"Pod","m":[1,2.5,null,true]}', id="JSON"),
        pytest.param("application/json; charset=utf-8", b'{"kind":"Pod","m":[1,2.5,null,true]}', id="with charset"),
        pytest.param("", b'{"kind":"Pod","m":[1,2.5,null,true]}', id="no content type means JSON"),
        pytest.param("application/yaml", b"kind: Pod\nm: [1, 2.5, null, true]\n", id="YAML"),
        pytest.param("application/yaml", b'{"kind":"Pod","m":[1,2.5,null,true]}', id="JSON called YAML"),
        pytest.param("application/yaml", b'{kind: Pod, "m": [1, 2.5, ~, yes]}', id="YAML that looks like JSON"),
    ],
)
def test_objects_are_decoded(content_type: str, body: bytes) -> None:
    assert payloads.read("create", content_type, body) == ({"kind": "Pod", "m": [1, 2.5, None, True]}, "")


def test_yaml_means_what_its_json_form_means() -> None:
    body = b"at: 2024-01-02T03:04:05Z\nday: 2024-01-02\n7: one\ntrue: yes\nshared: &s {a: 1}\nagain: *s\n"
    value, _ = payloads.read("create", "application/yaml", body)
    assert value == {
        "at": "2024-01-02T03:04:05Z",
        "day": "2024-01-02",
        "7": "one",
        "true": True,
        "shared": {"a": 1},
        "again": {"a": 1},
    }
    assert value["shared"] is not value["again"]


@pytest.mark.parametrize(
    ("content_type", "patch_type"),
    [
        ("application/json-patch+json", "json"),
        ("application/merge-patch+json", "merge"),
        ("application/strategic-merge-patch+json", "strategic"),
        ("application/apply-patch+yaml", "apply"),
    ],
)
def test_the_content_type_says_which_patch_it_is(content_type: str, patch_type: PatchType) -> None:
    assert payloads.read("patch", content_type, b'{"a":1}') == ({"a": 1}, patch_type)


def test_deleting_needs_no_body() -> None:
    assert payloads.read("delete", "", b"null") == (None, "")
    assert payloads.read("delete", "application/json", b'{"kind":"DeleteOptions"}')[0] == {"kind": "DeleteOptions"}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/json", b"", id="empty"),
        pytest.param("application/json", b'{"a":', id="cut off"),
        pytest.param("application/json", b'{"a":NaN}', id="NaN"),
        pytest.param("application/json", b"[" * 100_000, id="too deep"),
        pytest.param("application/yaml", b"a: [", id="YAML cut off"),
        pytest.param("application/yaml", b"a: \xff", id="YAML not UTF-8"),
        pytest.param("application/yaml", b"a: .inf", id="infinity"),
        pytest.param("application/yaml", b"a: !!binary aGk=", id="binary"),
        pytest.param("application/yaml", b"a: !!python/object:os.system {}", id="Python object"),
        pytest.param("application/yaml", b"? [a, b]\n: 1", id="a list as a key"),
        pytest.param("application/yaml", b"a: &a [*a]", id="recursive alias"),
        pytest.param("application/yaml", b"[" * 5_000, id="YAML too deep"),
        pytest.param("application/yaml", BOMB.encode(), id="aliases that expand to a hundred million values"),
        pytest.param("application/vnd.kubernetes.protobuf", b"k8s\x00\xff\xff", id="protobuf cut off"),
    ],
)
def test_a_malformed_body_is_a_bad_request(content_type: str, body: bytes) -> None:
    with pytest.raises(errors.BadRequest):
        payloads.read("create", content_type, body)


@pytest.mark.parametrize("start", [b'{"a":"', b'a: "'], ids=["JSON called YAML", "YAML"])
@pytest.mark.parametrize("character", ["\x7f", "\x80", "\x9f", "\ufffe", "\uffff"], ids=ascii)
def test_characters_that_yaml_does_not_know_are_refused_in_its_words(start: bytes, character: str) -> None:
    body = start + character.encode() + (b'"}' if start[:1] == b"{" else b'"')
    with pytest.raises(errors.BadRequest, match="yaml: control characters are not allowed"):
        payloads.read("create", "application/yaml", body)
    with pytest.raises(Unreadable, match="yaml: control characters are not allowed"):
        payloads.read("patch", "application/apply-patch+yaml", body)


@pytest.mark.parametrize("character", ["\x85", "\xa0", "é", "\u2028", "\ufffd", "\U0001f600"], ids=ascii)
def test_others_are_read_as_they_are(character: str) -> None:
    body = b'{"a":"' + character.encode() + b'"}'
    assert payloads.read("create", "application/yaml", body)[0] == {"a": character}


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/json-patch+json"])
def test_an_unknown_format_is_refused_with_the_known_ones(content_type: str) -> None:
    with pytest.raises(errors.UnsupportedMediaType, match=r"application/json, application/yaml, application/vnd\.kube"):
        payloads.read("create", content_type, b"{}")
    if "patch" not in content_type:
        with pytest.raises(errors.UnsupportedMediaType, match="415: Unsupported Media Type"):
            payloads.read("patch", content_type, b"{}")


@given(
    st.sampled_from(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]),
    st.binary(max_size=200),
)
def test_no_bytes_raise_anything_but_a_bad_request(content_type: str, body: bytes) -> None:
    with contextlib.suppress(errors.BadRequest):
        payloads.read("create", content_type, body)

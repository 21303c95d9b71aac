"""What is told of errors, what statements are made of, and whether passwords are those that are stored."""

from __future__ import annotations

import base64
import hashlib
import hmac

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors

from steelyard.providers.postgres import problems, rolesettings, scram, statements
from steelyard.providers.postgres.problems import Away, Broken, Busy, Full, Invalid, Missing, Refused, Taken


def test_every_error_of_the_driver_has_a_family_of_its_own_choosing() -> None:
    found = [getattr(each, "sqlstate", None) for each in vars(errors).values() if isinstance(each, type)]
    known = {code for code in found if isinstance(code, str)}
    assert len(known) > 200
    own = ("58", "F0", "XX", "P0", "72")
    assert not [code for code in known if problems.family_of(code) is Broken and code[:2] not in own]


@pytest.mark.parametrize(
    ("code", "family"),
    [
        ("08006", Away),
        ("57P01", Away),
        ("57P03", Away),
        ("53100", Full),
        ("53300", Busy),
        ("55P03", Busy),
        ("2BP01", Busy),
        ("28P01", Refused),
        ("42501", Refused),
        ("42P04", Taken),
        ("42710", Taken),
        ("3D000", Missing),
        ("42601", Invalid),
        ("22023", Invalid),
        ("XX001", Broken),
    ],
)
def test_a_state_means_what_its_family_says(code: str, family: type) -> None:
    assert problems.family_of(code) is family


def test_a_full_disk_is_told_whatever_the_state() -> None:
    found = problems.of(errors.IoError("could not extend file: No space left on device"))
    assert isinstance(found, Full)
    assert "Make room" in str(found)


def test_without_an_answer_the_server_is_away() -> None:
    found = problems.of(psycopg.OperationalError("connection refused\nIs the server running?"))
    assert isinstance(found, Away)
    assert "cannot be reached" in str(found)


@given(st.text(min_size=1, max_size=20))
def test_names_stay_one_name(text: str) -> None:
    if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > 63 or any("\ud800" <= c <= "\udfff" for c in text):
        return
    quoted = statements.name(text).as_string(None)
    assert quoted[0] == quoted[-1] == '"'
    assert '"' not in quoted[1:-1].replace('""', "")


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ä" * 32])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        statements.name(name)


@pytest.mark.parametrize("word", ["select", "ALL; DROP", "GRANT", ""])
def test_privileges_are_words_that_postgresql_has(word: str) -> None:
    with pytest.raises(Invalid):
        statements.privilege(word)


@pytest.mark.parametrize("name", ["work_mem; x", "a b", "a.b.c", "", "1a"])
def test_settings_have_names_that_postgresql_has(name: str) -> None:
    with pytest.raises(Invalid):
        statements.parameter(name)


def _verifier(password: str, iterations: int = 4096) -> str:
    salt = b"0123456789abcdef"
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = (base64.b64encode(each).decode() for each in (salt, stored, server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(iterations, *parts)


def test_a_password_is_told_from_its_verifier() -> None:
    assert scram.matches(_verifier("right"), "right", "app")
    assert not scram.matches(_verifier("right"), "wrong", "app")
    md5 = "md5" + hashlib.md5(b"rightapp", usedforsecurity=False).hexdigest()
    assert scram.matches(md5, "right", "app")
    assert not scram.matches(md5, "right", "other")
    for broken in ("", "nonsense", "SCRAM-SHA-256$4096:!$x:y", "SCRAM-SHA-256$4096:YQ==$YQ==:YQ=="):
        assert not scram.matches(broken, "right", "app")


def test_only_settings_that_differ_are_changed() -> None:
    wanted = {
        "configurationParameters": [
            {"name": "TimeZone", "value": "UTC"},
            {"name": "work_mem", "value": "8MB"},
            {"name": "search_path", "value": "a, b"},
        ]
    }
    found = {"timezone": "UTC", "work_mem": "4MB", "search_path": '"a", b', "jit": "off"}
    assert not rolesettings.is_met(wanted, found)
    said = [each.as_string(None) for each in rolesettings.changes("app", wanted, found)]
    assert said == ['ALTER ROLE "app" RESET "jit"', """ALTER ROLE "app" SET "work_mem" = '8MB'"""]
    assert not list(rolesettings.changes("app", {}, found)), "where none are named, they are left as they are"

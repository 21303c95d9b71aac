"""What an answer of Vault's that is none becomes: every exception of the libraries has its family, and no secret gets
into a message."""

from __future__ import annotations

import inspect

import pytest
import requests.exceptions
from hvac import exceptions as said

from steelyard.vault import errors

ADDRESS = "https://vault:8200"


def test_every_exception_of_the_libraries_becomes_one_of_ours() -> None:
    ours = {errors.Away, errors.Sealed, errors.Refused, errors.NotFound, errors.Invalid, errors.Conflict}
    for module in (said, requests.exceptions):
        for name, each in inspect.getmembers(module, inspect.isclass):
            if issubclass(each, Exception) and not issubclass(each, Warning):
                made = each("why") if module is said else each.__new__(each, "why")
                assert type(errors.mapped(made, ADDRESS, "secret/data/a")) in ours, name


@pytest.mark.parametrize(
    ("error", "family", "told"),
    [
        (said.VaultDown("", errors=["Vault is sealed"]), errors.Sealed, "unseal it"),
        (said.VaultDown("", errors=["no active node"]), errors.Away, "tried again"),
        (said.Forbidden("", errors=["permission denied"]), errors.Refused, "policy"),
        (said.InvalidPath("", errors=[]), errors.NotFound, "nothing at"),
        (said.InvalidRequest("", errors=["missing type"]), errors.Invalid, "missing type"),
        (said.UnexpectedError("", errors=["unsupported operation"]), errors.Invalid, "cannot be asked"),
        (said.UnexpectedError("", errors=["gateway timeout"]), errors.Away, "tried again"),
        (said.InvalidRequest("", errors=["check-and-set parameter did not match"]), errors.Conflict, "tried again"),
        (said.InternalServerError("", errors=["1 error occurred:\n\t* disk\n\n"]), errors.Invalid, "disk"),
        (requests.exceptions.ConnectTimeout("slow"), errors.Away, "in time"),
        (requests.exceptions.SSLError("self-signed"), errors.Away, "certificate"),
        (requests.exceptions.ConnectionError(OSError(111, "Connection refused")), errors.Away, "Connection refused"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else None,
)
def test_a_person_is_told_what_happened(error: Exception, family: type[errors.VaultError], told: str) -> None:
    made = errors.mapped(error, ADDRESS, "secret/data/a")

    assert type(made) is family
    assert told in str(made)


def test_what_was_sent_is_not_said_back() -> None:
    answer = errors.Invalid("cannot connect to postgresql://root:hunter2secret@db: hunter2secret is wrong")

    told = errors.without(answer, ["hunter2secret", "db"])

    assert "hunter2secret" not in str(told)
    assert isinstance(told, errors.Invalid)

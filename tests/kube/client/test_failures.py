from __future__ import annotations

import inspect

import aiohttp
import pytest

from steelyard.kube import errors
from steelyard.kube.client import failures

_NOT_OF_A_REQUEST = {
    aiohttp.WSServerHandshakeError,
    aiohttp.WSMessageTypeError,
    aiohttp.WebSocketError,
    aiohttp.EofStream,
}
"""WebSockets, which the client does not open, and a signal inside the library."""


def exported() -> list[type[Exception]]:
    return [
        cls
        for cls in vars(aiohttp).values()
        if inspect.isclass(cls)
        and issubclass(cls, Exception)
        and not issubclass(cls, Warning)
        and cls not in _NOT_OF_A_REQUEST
    ]


def _nothing(self: Exception) -> None: ...


def _why(self: Exception) -> str:
    return "why"


@pytest.mark.parametrize("cls", exported(), ids=lambda cls: cls.__name__)
def test_every_exception_of_the_library_has_a_meaning(cls: type[Exception]) -> None:
    assert cls in failures.FAILURES
    assert issubclass(cls, failures.EXPECTED)
    # The library's classes want arguments of the request; what is looked at here is the class.
    failure = type(cls.__name__, (cls,), {"__init__": _nothing, "__str__": _why})()
    assert isinstance(failure, cls)
    error = failures.of(failure, "https://a:6443")
    assert isinstance(error, errors.ServiceUnavailable | errors.BadRequest)
    assert "https://a:6443" in error.message


def test_library_exports_something() -> None:
    assert len(exported()) > 20


@pytest.mark.parametrize("failure", [TimeoutError(), ConnectionRefusedError(111, "refused"), OSError("odd")])
def test_failures_of_the_operating_system_have_a_meaning(failure: Exception) -> None:
    assert isinstance(failures.of(failure, "https://a"), errors.ServiceUnavailable)


def test_bug_is_not_taken_for_a_failure() -> None:
    with pytest.raises(KeyError):
        failures.of(KeyError("x"), "https://a")

"""What Vault says when it does not do as asked, in five families, and what to do about each.

This is the one place that knows the exceptions of hvac and of the library below it. No message has a secret in it: what
Vault answers is cut to its first lines, and what was sent is taken out of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

_LONGEST: Final = 300
_SHORTEST_SECRET: Final = 4
"""What is shorter is no secret that could be told from any other word."""


class VaultError(Exception):
    """The message is for people: what happened and what to do. `is_passing`: it may well go away by itself."""

    is_passing = False


class Away(VaultError):
    """Nobody answers, or not in time, or with a certificate that is not believed."""

    is_passing = True


class Sealed(VaultError):
    """It answers, and has not been unsealed, or not even been initialised."""

    is_passing = True


class Refused(VaultError):
    """The login is not accepted, or may not do this."""


class NotFound(VaultError):
    """There is nothing at that path, or no engine."""


class Invalid(VaultError):
    """It does not want what was sent, or cannot do it."""


class Conflict(Invalid):
    """Somebody else wrote there in between."""

    is_passing = True


def mapped(error: Exception, address: str, path: str, *, is_sealed: bool | None = None) -> VaultError:
    """`is_sealed` is what Vault's seal status said, where it was asked."""
    from hvac import exceptions as said

    from requests import exceptions as transport

    if isinstance(error, VaultError):
        return error
    if isinstance(error, transport.SSLError):
        return Away(
            f"Vault at {address} shows a certificate that is not believed ({_cause(error)}): give who signed it as "
            "caCertificates, or mend it"
        )
    if isinstance(error, transport.Timeout | TimeoutError):
        return Away(f"Vault at {address} does not answer in time; it is tried again")
    if isinstance(error, transport.RequestException | OSError):
        return Away(f"Vault at {address} cannot be reached ({_cause(error)}); it is tried again")
    text = _answer(error)
    if is_sealed or (isinstance(error, said.VaultDown | said.VaultNotInitialized) and "sealed" in text.lower()):
        return Sealed(f"Vault at {address} is sealed: unseal it; it is tried again until then")
    match error:
        case said.VaultNotInitialized():
            return Sealed(f"Vault at {address} is not initialised: initialise and unseal it")
        case said.Unauthorized() | said.Forbidden():
            return Refused(
                f"Vault at {address} refuses {path} ({text}): the platform's login has ended, or its policy does not "
                "allow that"
            )
        case said.InvalidPath():
            return NotFound(f"Vault at {address} has nothing at {path}{f' ({text})' if text else ''}")
        case said.InvalidRequest() if "check-and-set" in text:
            return Conflict(f"somebody else wrote to {path} in Vault; it is tried again")
        case said.InvalidRequest() | said.ParamValidationError() | said.UnsupportedOperation():
            return Invalid(f"Vault at {address} does not accept what is put at {path}: {text}")
        case said.UnexpectedError() if "unsupported" in text:
            return Invalid(f"Vault at {address} cannot be asked that of {path}: {text}")
        case said.RateLimitExceeded() | said.VaultDown() | said.BadGateway() | said.UnexpectedError():
            return Away(f"Vault at {address} does not serve requests now ({text}); it is tried again")
        case said.InternalServerError():
            return Invalid(f"Vault at {address} could not do what {path} asks for: {text}")
        case _:
            return Invalid(f"Vault at {address}, {path}: {text}")


def without(error: VaultError, secrets: Iterable[str]) -> VaultError:
    """The same error with none of these in its message, should Vault have said one back."""
    text = str(error)
    for each in sorted(secrets, key=len, reverse=True):
        if len(each) >= _SHORTEST_SECRET and each in text:
            text = text.replace(each, "***")
    return error if text == str(error) else type(error)(text)


def _answer(error: Exception) -> str:
    told: Any = getattr(error, "errors", None)
    lines = cast("list[object]", told) if isinstance(told, list) else [told or str(error)]
    text = "; ".join(" ".join(str(each).split()) for each in lines if each)
    # Where several things went wrong, Go's programs begin with how many.
    text = text.removeprefix("1 error occurred: * ")
    return text[:_LONGEST] or type(error).__name__


def _cause(error: BaseException) -> str:
    """The innermost reason, which is the one that says something."""
    while True:
        inner = error.__cause__ or error.__context__ or getattr(error, "reason", None)
        arguments: tuple[object, ...] = error.args
        inner = inner or next((each for each in arguments if isinstance(each, BaseException)), None)
        if not isinstance(inner, BaseException):
            break
        error = inner
    text = str(getattr(error, "strerror", None) or error)
    return " ".join(text.split())[:_LONGEST] or type(error).__name__

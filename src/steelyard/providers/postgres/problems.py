"""What can go wrong with a PostgreSQL server, in few families, each with a meaning for whoever asked.

    Away      nobody answers, or the server went in the middle: try again
    Busy      something is in use or locked, or there are too many sessions: try again
    Full      no space or memory is left on the server: somebody has to make room
    Refused   the server knows us and does not allow it, or does not know us
    Taken     what was to be made is there already
    Missing   what was referred to is not there
    Invalid   the server cannot do what was asked, as it was asked
    Broken    the server says that it is damaged, or something that nobody foresaw

`of` is the one place where the driver's errors are told apart, by SQLSTATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psycopg


class Problem(Exception):
    """The message is for whoever asked: what happened, and what to do where that is known."""

    retry_after: float = 30.0
    """Seconds after which it is worth trying again though nothing else has changed; ever more when it fails again."""


class Away(Problem):
    retry_after = 0.5


class Busy(Problem):
    retry_after = 0.5


class Full(Problem):
    retry_after = 15.0


class Refused(Problem):
    pass


class Taken(Problem):
    pass


class Missing(Problem):
    retry_after = 0.5


class Invalid(Problem):
    retry_after = 300.0


class Broken(Problem):
    pass


_BY_CODE: Final[dict[str, type[Problem]]] = {
    "42501": Refused,
    "42P04": Taken,
    "42P06": Taken,
    "42P07": Taken,
    "42710": Taken,
    "42723": Taken,
    "23505": Taken,
    "3D000": Missing,
    "3F000": Missing,
    "42704": Missing,
    "42P01": Missing,
    "42703": Missing,
    "42883": Missing,
    "53300": Busy,
    "57014": Busy,
    "57P01": Away,
    "57P02": Away,
    "57P03": Away,
    "57P04": Away,
    "57P05": Away,
    "25P02": Away,
    "25P03": Away,
    "55000": Invalid,
    "55P04": Invalid,
    "55P02": Invalid,
    "58P01": Broken,
    "58P02": Broken,
    "58P03": Broken,
}
_BY_CLASS: Final[dict[str, type[Problem]]] = {
    **dict.fromkeys(("08", "57"), Away),
    **dict.fromkeys(("40", "55", "2B", "25"), Busy),
    "53": Full,
    **dict.fromkeys(("28", "42501"), Refused),
    **dict.fromkeys(("58", "F0", "XX", "P0", "72"), Broken),
    **dict.fromkeys(
        (
            *("00", "01", "02", "03", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "10", "20", "21", "22", "23", "24"),
            *("26", "27", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "42", "44", "54", "HV"),
        ),
        Invalid,
    ),
}
_WITHOUT_SPACE: Final = "No space left on device"
_FULL: Final = "the server's disk is full"


def of(error: psycopg.Error) -> Problem:
    """The problem behind an error of the driver."""
    code = error.sqlstate or ""
    said = _said(error)
    if _WITHOUT_SPACE in said or code == "53100":
        return Full(f"{_FULL}: {said}. Make room on it, or delete databases that are no longer needed")
    family = family_of(code)
    if not code:
        # The driver could not connect, or lost the connection: there is no state without a server that answers.
        return Away(f"the server cannot be reached: {said}")
    if family is Away:
        return Away(f"the server went away: {said}")
    return family(said)


def family_of(code: str) -> type[Problem]:
    return _BY_CODE.get(code) or _BY_CLASS.get(code[:2]) or Broken


def _said(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    if primary:
        detail = error.diag.message_detail
        return f"{primary} ({detail})" if detail else primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines)[:500] or type(error).__name__

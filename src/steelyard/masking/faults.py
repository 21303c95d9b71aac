"""What goes wrong while a copy is made, in words that hold no value from a row.

PostgreSQL's messages quote the values that they are about. So of an error that the source raised only its code and its
meaning are told; where a connection could not be made there was no row yet, and the message is told whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg


class Failed(Exception):
    """The copy cannot be made now; the message is for people."""


def of_driver(error: psycopg.Error, doing: str) -> Failed:
    """For whatever psycopg raises."""
    if error.sqlstate is None:
        return Failed(f"{doing}: {_first_line(str(error)) or type(error).__name__}")
    return Failed(f"{doing}: {type(error).__name__} (SQLSTATE {error.sqlstate})")


def of_program(program: str, code: int, output: str, doing: str) -> Failed:
    """For pg_dump, pg_restore and psql; what they say of schemas holds no rows."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = " | ".join(lines[-6:])[-1500:]
    return Failed(f"{doing}: {program} ended with {code}{f': {told}' if told else ''}")


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""

"""The mark on every role that is made for a TemporaryLogin or a DatabaseCopy: a comment on the role.

    steelyard login 0d5c…              of the object with this UID
    steelyard reader shop              by which read-only logins of the database read

Role and mark come with one transaction, so there is never the one without the other. A role without our mark is never
touched, whatever its name.
"""

from __future__ import annotations

from typing import Final

_LOGIN: Final = "steelyard login "
ANY_LOGIN: Final = f"{_LOGIN}%"
"""For LIKE."""


def login(uid: str) -> str:
    return f"{_LOGIN}{uid}"


def reader(database: str) -> str:
    return f"steelyard reader {database}"

"""Sessions on both servers, opened so that neither logs nor names of a tenant's own can do harm.

Every setting goes with the opening of the session, where no log shows it: the key, an empty `search_path` (nothing of
the database's own is taken for a built-in), `row_security` off (a policy that hides rows is an error, not a smaller
copy), the same formats on both sides. The programs of PostgreSQL get the same through a service file in memory, which
goes with the process and is in neither arguments nor environment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from steelyard.masking import faults
from steelyard.masking.expressions import KEY_SETTING
from steelyard.masking.job import Endpoint

if TYPE_CHECKING:
    import psycopg

SCAN_SETTING: Final = "steelyard.scan"
SERVICE: Final = "steelyard"
_CONNECT_SECONDS: Final = "15"
_SETTINGS: Final = {
    "search_path": "",
    "row_security": "off",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "xmloption": "content",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # Samples on both sides begin at the same end.
    "synchronize_seqscans": "off",
}
_OF_THE_SOURCE: Final = {
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    # A table that somebody holds exclusively fails the copy instead of queueing everybody else behind it.
    "lock_timeout": "60s",
}
_OF_THE_TARGET: Final = {"synchronous_commit": "off", "maintenance_work_mem": "256MB"}


class Session:
    """How to log in to one side; nothing is opened yet."""

    def __init__(self, endpoint: Endpoint, settings: dict[str, str]) -> None:
        from psycopg import conninfo

        try:
            given = conninfo.conninfo_to_dict(endpoint.dsn)
        except Exception as error:
            raise faults.Failed("the DSN cannot be read") from error
        parameters = {name: str(value) for name, value in given.items() if value is not None}
        if endpoint.password is not None:
            parameters["password"] = endpoint.password.get_secret_value()
        options = " ".join(f"-c {name}={_escaped(value)}" for name, value in {**_SETTINGS, **settings}.items())
        parameters["options"] = f"{parameters.get('options', '')} {options}".strip()
        parameters.setdefault("connect_timeout", _CONNECT_SECONDS)
        parameters["client_encoding"] = "UTF8"
        parameters.setdefault("application_name", "steelyard-masking")
        for name, value in parameters.items():
            if "\n" in value or value != value.strip():
                raise faults.Failed(f"the connection's {name} begins or ends with a space, or has a line break")
        self._parameters = parameters

    def open(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        import psycopg

        try:
            # The parameters are text, which psycopg takes for all of its own; its types do not say so.
            return psycopg.connect("", autocommit=autocommit, **self._parameters)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise faults.of_driver(error, f"logging in to {self}") from None

    @contextlib.contextmanager
    def service_file(self) -> Generator[int]:
        """A file descriptor, to be handed to a program of PostgreSQL; see `programs.py`."""
        descriptor = os.memfd_create("steelyard-service", 0)
        try:
            lines = [f"[{SERVICE}]", *(f"{name}={value}" for name, value in self._parameters.items()), ""]
            os.write(descriptor, "\n".join(lines).encode())
            yield descriptor
        finally:
            os.close(descriptor)

    def __str__(self) -> str:
        shown = self._parameters
        return f"{shown.get('dbname', '?')} on {shown.get('host', 'the local socket')}:{shown.get('port', '5432')}"


def of_source(endpoint: Endpoint, key: SecretStr, scan_key: str) -> Session:
    return Session(endpoint, {**_OF_THE_SOURCE, KEY_SETTING: key.get_secret_value(), SCAN_SETTING: scan_key})


def of_target(endpoint: Endpoint, owner: str | None, scan_key: str) -> Session:
    role = {"role": owner} if owner else {}
    return Session(endpoint, {**_OF_THE_TARGET, SCAN_SETTING: scan_key, **role})


def _escaped(value: str) -> str:
    return "".join(f"\\{character}" if character.isspace() or character == "\\" else character for character in value)

"""Structured logging on the standard library: a constant message and key=value fields.

Fields bound with `bind` (kind, namespace, name, reconcile id) go with every record logged below it in the same task,
and in tasks started from there. Any handler of the standard library can read them from `record.fields`; `Formatter`
writes them. `steelyard logs --claim` finds lines by `claim=<namespace>/<name>`, `cluster=<name>`, or `namespace` and
`name` of the claim or of what is named after it.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import logging
import re
import sys
from collections.abc import Generator, Mapping
from typing import Any, TextIO

_bound: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("steelyard_log_fields", default={})  # noqa: B039 (never mutated)
_NEEDS_QUOTES = re.compile(r'[\s"=]|^$')


def bound() -> Mapping[str, Any]:
    return _bound.get()


@contextlib.contextmanager
def bind(**fields: Any) -> Generator[None]:
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class Logger:
    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, **fields: Any) -> None:
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._log(logging.WARNING, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._log(logging.ERROR, message, fields)

    def exception(self, message: str, **fields: Any) -> None:
        """An error with the traceback of the exception being handled."""
        self._log(logging.ERROR, message, fields, traceback=True)

    def _log(self, level: int, message: str, fields: Mapping[str, Any], *, traceback: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            everything = {**_bound.get(), **fields}
            self._logger.log(level, message, exc_info=traceback, extra={"fields": everything}, stacklevel=3)


def is_worth_repeating(count: int) -> bool:
    """Whether the same failure is told for the n-th time: the first ones, then at 4, 8, 16 and so on, never a flood."""
    return count <= 3 or count & (count - 1) == 0


def get(name: str) -> Logger:
    return Logger(name)


class Formatter(logging.Formatter):
    """`2025-01-01T00:00:00.000Z WARNING reconcile failed kind=Machine namespace=team-a name=m-1 error="no route"`

    Levels are padded, so that messages stand below each other.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        pairs = "".join(f" {key}={_value(value)}" for key, value in fields.items())
        text = f"{stamp} {record.levelname:<7} {record.getMessage()}{pairs}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def _value(value: Any) -> str:
    text = str(value)
    if not _NEEDS_QUOTES.search(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class _StandardErrorHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the moment: a live table replaces it, to keep other lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except (OSError, ValueError):
            self.handleError(record)


def set_up(*, level: int = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Sends the platform's log to a stream, standard error by default; returns the handler, for taking it off.

    Handlers that are there already, such as a file's, get the same form. Where one of them says that it covers standard
    error (`covers_standard_error`), it is the one that is returned: no line is written twice into one file.
    """
    logger = logging.getLogger("steelyard")
    logger.setLevel(level)
    logger.propagate = False
    for known in logger.handlers:
        if known.formatter is None:
            known.setFormatter(Formatter())
    covering = [known for known in logger.handlers if getattr(known, "covers_standard_error", False)]
    if covering and stream is None:
        return covering[0]
    handler = logging.StreamHandler(stream) if stream is not None else _StandardErrorHandler()
    handler.setFormatter(Formatter())
    logger.addHandler(handler)
    return handler

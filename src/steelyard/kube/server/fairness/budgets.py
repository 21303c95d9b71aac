"""What one request may cost. All servers of a process share one event loop, so a step without a bound is everybody's
outage: whatever a client can make larger is bounded here, before it is spent.

- At the door: bytes and fields of a head, seconds that a connection may be silent (`protocol`, `door`).
- On the way in: bytes of a body, bytes of all bodies that are not answered yet (`intake`), values and levels of one
  body before anything is made of it (`bodies`, `yamlbodies`).
- At work: requests at once, large objects at once and loop time by cluster and user (`shares`). What has more than
  `LIGHT_VALUES` goes through its pure stages in a thread (`lane`), YAML of more than `LIGHT_YAML_BYTES` through a
  process (`workers`).
- On the way out: long answers are encoded and written in pieces (`answers`, `exchange`).
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from steelyard.kube import errors

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
MAX_PIECES: Final = 10_000
PIECE_BYTES: Final = 64
"""A body that comes in more pieces than that has larger ones on average."""
MAX_DEPTH: Final = 128
"""Objects and lists inside one another: more than any kind has, and far from where Python or the encoder give up."""
MAX_VALUES: Final = 100_000
"""Of one body or object, managedFields included: the largest definitions that people apply have half of it."""

MAX_HEAD_BYTES: Final = 1024 * 1024
"""Of the line and fields of a head, as upstream."""
MAX_TARGET_BYTES: Final = 64 * 1024
MAX_HEADER_FIELDS: Final = 1000
MAX_FIELD_BYTES: Final = 8 * 1024
"""Of a header that means something here; what follows is not looked at."""

LIGHT_BYTES: Final = 16 * 1024
"""A body of no more goes through all stages at once, whatever it holds."""
LIGHT_VALUES: Final = 4000
LARGE_BYTES: Final = 64 * 1024
"""Who writes an object of more takes turns with others who do."""
LIGHT_YAML_BYTES: Final = 2 * 1024
"""YAML takes some 10 µs a byte."""

_STRUCTURE: Final = b'",{[\\'
_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _STRUCTURE)
_TEXT: Final = re.compile(rb'"[^"]*"')


def values(data: bytes) -> int:
    """How many values a JSON text has at most: quick, and before anything is made of them.

    Each is behind an opening bracket or a comma that is in no text, so an empty object counts twice. Too many texts are
    too many values, and not looked through.
    """
    if len(data) <= MAX_VALUES and _marks(data) <= LIGHT_VALUES:
        return LIGHT_VALUES
    rest = data.translate(None, _OTHER_BYTES)
    if b"\\" in rest:
        rest = rest.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = rest.count(b'"') // 2
    if texts > 2 * MAX_VALUES:
        return max(texts // 2, MAX_VALUES + 1)
    # Most texts have nothing in them by now. Two quotes side by side that end one text and begin the next may go as
    # well: what is inside of a text stays inside.
    return 1 + _marks(_TEXT.sub(b"", rest.replace(b'""', b"")))


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"{") + data.count(b"[")


def is_light(data: bytes) -> bool:
    """Whether all stages of a write, together, take about as long as a small one's."""
    return len(data) <= LIGHT_BYTES or values(data) <= LIGHT_VALUES


def check_values(data: bytes) -> None:
    """Raises TooLarge for a JSON text of too many values."""
    if len(data) > MAX_VALUES and values(data) > MAX_VALUES:
        raise too_many_values()


def check_object(obj: Any) -> None:
    """Raises TooLarge for an object that no body could have brought: patches and defaults make objects grow."""
    encoded = orjson.dumps(obj)
    if len(encoded) > MAX_BODY_BYTES:
        raise too_large()
    check_values(encoded)


def too_many_values(limit: int = MAX_VALUES) -> errors.TooLarge:
    return errors.TooLarge(f"Request entity too large: limit is {limit} values in one body")


def too_large() -> errors.TooLarge:
    return errors.TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")


def too_deep() -> errors.BadRequest:
    return errors.BadRequest(f"the body of the request is nested too deeply: limit is {MAX_DEPTH} levels")

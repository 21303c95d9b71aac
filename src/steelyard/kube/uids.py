"""UIDs of new objects: random UUIDs, made from blocks of random bytes.

Asking the kernel for each would take longer than all the rest, and would let other threads in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

_AT_ONCE: Final = 256
_DIGITS: Final = 32
_VARIANT: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


_READY: Final[list[str]] = []


def new() -> str:
    """Another one, for any thread: taking one out of a list lets no other in between."""
    try:
        return _READY.pop()
    except IndexError:
        first, *others = _block()
        _READY.extend(others)
        return first


def _block() -> Iterator[str]:
    block = os.urandom(_AT_ONCE * _DIGITS // 2).hex()
    for start in range(0, len(block), _DIGITS):
        digits = block[start : start + _DIGITS]
        variant = _VARIANT[digits[16]]
        yield f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

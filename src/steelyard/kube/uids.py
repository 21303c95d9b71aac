"""UIDs of new objects: random UUIDs, made from blocks of random bytes.

Asking the kernel for each would take longer than all the rest, and would let other threads in between.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Final

_AT_ONCE: Final = 256
_DIGITS: Final = 32
_VARIANT: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


def _stream() -> Iterator[str]:
    while True:
        block = os.urandom(_AT_ONCE * _DIGITS // 2).hex()
        for start in range(0, len(block), _DIGITS):
            digits = block[start : start + _DIGITS]
            variant = _VARIANT[digits[16]]
            yield f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


new: Final[Callable[[], str]] = functools.partial(next, _stream())
"""Another one. Only for the event loop's thread."""

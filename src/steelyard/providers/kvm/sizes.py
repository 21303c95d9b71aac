"""Sizes and processor time as KVMMachines write them."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"^([0-9]+)([MGT])(i|B)?$")
_POWER: Final = {"M": 2, "G": 3, "T": 4}


def in_bytes(size: str) -> int:
    """`GB` is meant as the documents mean it, as 1024 to the third.

    >>> in_bytes("8Gi") == in_bytes("8GB") == 8 << 30
    True
    >>> in_bytes("8G")
    8000000000
    """
    found = _SIZE.match(size)
    if found is None:
        raise ValueError(f'"{size}" is no size such as 8Gi')
    number, unit, binary = found.groups()
    return int(number) * (1024 if binary else 1000) ** _POWER[unit]


def in_cores(time: str) -> float:
    """
    >>> in_cores("1500m"), in_cores("2")
    (1.5, 2.0)
    """
    return float(time[:-1]) / 1000 if time.endswith("m") else float(time)

"""The CustomResourceDefinitions of External Secrets' kinds. Read from the tables on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import orjson

from steelyard.kube.objects import Object

_FOLDER: Final = Path(__file__).parent


@cache
def crds() -> tuple[Object, ...]:
    """Shared: copy before changing one."""
    return tuple(orjson.loads(path.read_bytes()) for path in sorted(_FOLDER.glob("*.json")))

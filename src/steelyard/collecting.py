"""When Python looks for garbage. While modules are imported and the platform starts, nearly everything that is made
stays; looking through it again and again is a tenth of the time until the platform is ready.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def paused() -> Generator[None]:
    """What is there at the end is never looked through again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()

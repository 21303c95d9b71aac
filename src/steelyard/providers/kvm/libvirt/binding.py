"""libvirt's Python binding: an extra, imported when the first host is connected to, with its event loop running.

The binding has no types, so what comes from it is `Any` here, and typed by those who call it.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

_lock = threading.Lock()
_loaded: Any = None


class NoBinding(Exception):
    """The extra is not installed; the message says how to install it."""


def load() -> Any:
    """The module. The first call registers libvirt's event loop, which must be there before any connection is, and
    starts the thread that turns it; both last as long as the process."""
    global _loaded
    with _lock:
        if _loaded is None:
            found = _imported()
            # By default every error is printed to stderr as well.
            found.registerErrorHandler(_keep_quiet, None)
            found.virEventRegisterDefaultImpl()
            threading.Thread(target=_turn, args=(found,), name="libvirt-events", daemon=True).start()
            _loaded = found
        return _loaded


def _imported() -> Any:
    try:
        return importlib.import_module("libvirt")
    except ImportError as error:
        raise NoBinding(
            "libvirt's Python binding is missing: apt install gcc pkg-config python3-dev libvirt-dev, then "
            f"pip install 'steelyard[kvm]' ({error})"
        ) from error


def _keep_quiet(_: object, __: object) -> None:
    pass


def _turn(libvirt: Any) -> None:
    while True:
        libvirt.virEventRunDefaultImpl()

"""What can go wrong with a call to libvirt: few families, each with a meaning for the caller.

Away        the host cannot be asked; nothing is known of what is there
Hung        it was asked and did not answer in time; whether the call took effect is not known
Missing     there is no such domain, network, pool or volume
Exists      there is one already
WrongState  it is not in the state that the call needs: look again, then decide again
NoSpace     the host's disk is full
Failed      anything else; the message is libvirt's own
"""

from __future__ import annotations

import errno
from typing import Any, Final


class Problem(Exception):
    """The base of them. The message says what was asked for, and libvirt's words."""


class Away(Problem):
    pass


class Hung(Away):
    pass


class Missing(Problem):
    pass


class Exists(Problem):
    pass


class WrongState(Problem):
    pass


class NoSpace(Problem):
    pass


class Failed(Problem):
    pass


# By the names of libvirt's error numbers, as they are in the binding. What is not here has failed in a way of its own.
FAMILIES: Final[dict[type[Problem], frozenset[str]]] = {
    Away: frozenset(
        {
            "VIR_ERR_NO_CONNECT",
            "VIR_ERR_INVALID_CONN",
            "VIR_ERR_RPC",
            "VIR_ERR_AUTH_FAILED",
            "VIR_ERR_AUTH_CANCELLED",
            "VIR_ERR_AUTH_UNAVAILABLE",
            "VIR_ERR_SSH",
            "VIR_ERR_LIBSSH",
            "VIR_ERR_GNUTLS_ERROR",
            "VIR_ERR_NO_CLIENT",
            "VIR_ERR_NO_SERVER",
            "VIR_ERR_CALL_FAILED",
        }
    ),
    Missing: frozenset(
        {
            "VIR_ERR_NO_DOMAIN",
            "VIR_ERR_INVALID_DOMAIN",
            "VIR_ERR_NO_NETWORK",
            "VIR_ERR_INVALID_NETWORK",
            "VIR_ERR_NO_STORAGE_POOL",
            "VIR_ERR_INVALID_STORAGE_POOL",
            "VIR_ERR_NO_STORAGE_VOL",
            "VIR_ERR_INVALID_STORAGE_VOL",
            "VIR_ERR_NO_DOMAIN_METADATA",
            "VIR_ERR_NO_NETWORK_METADATA",
        }
    ),
    Exists: frozenset(
        {
            "VIR_ERR_DOM_EXIST",
            "VIR_ERR_NETWORK_EXIST",
            "VIR_ERR_STORAGE_VOL_EXIST",
            "VIR_ERR_STORAGE_POOL_BUILT",
        }
    ),
    WrongState: frozenset(
        {
            "VIR_ERR_OPERATION_INVALID",
            "VIR_ERR_RESOURCE_BUSY",
            "VIR_ERR_OPERATION_ABORTED",
            "VIR_ERR_AGENT_UNRESPONSIVE",
        }
    ),
    Hung: frozenset({"VIR_ERR_OPERATION_TIMEOUT"}),
}
_SPACE: Final = ("No space left on device", "Disk quota exceeded")
# A connection that broke in the middle of a call has no number of its own.
_BROKEN: Final = (
    "client socket is closed",
    "connection closed due to keepalive timeout",
    "internal error: client is closed",
    "End of file while reading data",
    "Cannot recv data",
    "Cannot write data",
)


def of(error: Any, libvirt: Any, what: str) -> Problem:
    """`error` is a libvirtError, `what` was being done."""
    text = str(error)
    told = f"{what}: {text}"
    if any(each in text for each in _SPACE) or errno_of(error, libvirt) in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(told)
    if any(each in text for each in _BROKEN):
        return Away(told)
    code = error.get_error_code()
    for family, names in FAMILIES.items():
        if any(getattr(libvirt, name, None) == code for name in names):
            return family(told)
    if "already exists" in text:
        return Exists(told)
    return Failed(told)


def errno_of(error: Any, libvirt: Any) -> int:
    """The system's own number; 0 where the error is none of the system's."""
    is_systems = error.get_error_code() == libvirt.VIR_ERR_SYSTEM_ERROR
    return int(error.get_int1() or 0) if is_systems else 0

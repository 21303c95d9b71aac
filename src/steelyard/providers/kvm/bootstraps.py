"""Whether the bootstrap of a machine has failed: the machine says so on its console (`seed/watching.py`).

What a guest writes there is its own affair, and may be anything. So little of it is read, and seldom; one line of it is
looked for, and that line is text: without escapes and control characters, short, without what could be a secret.
Whoever has it said without reason makes their own machine look bad, until its Node is seen.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from steelyard.providers.kvm import identity, masking
from steelyard.providers.kvm.libvirt import folders
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.folders import Folder
from steelyard.providers.kvm.libvirt.problems import Problem
from steelyard.providers.kvm.seed import watching

FAILED: Final = "BootstrapFailed"
MOST_READ: Final = 256 << 10
"""Bytes of a console, at once."""
_LONGEST_LINE: Final = 4096
_CONSIDERED: Final = 1200
"""Characters of it; fewer than a machine sends, so that what it has cut is not among them."""
LONGEST: Final = 600
"""Characters of it that are shown."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)?|[()*+].|.)?")


class Bootstraps:
    """What has been read of consoles on which nothing was found."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    async def failure(
        self, connection: Connection, uuid: str, folder: Folder | None, bootstrap_data: Callable[[], Awaitable[bytes]]
    ) -> str:
        """What the machine says of it; empty where it says nothing, or nothing new. The bootstrap data is asked for
        only where its secrets could be in that. Read in a thread, as all that is asked of libvirt is."""
        size = folder.files.get(identity.CONSOLE, 0) if folder is not None else 0
        before = self._read.get(uuid, 0)
        if size == before:
            return ""
        # A line may have been half written. One that has become shorter was begun anew.
        new = size - before + _LONGEST_LINE if size > before else size
        try:
            console = await folders.read(connection, uuid, identity.CONSOLE, last=min(new, MOST_READ))
        except Problem:
            # The machine runs all the same; it is looked at again.
            return ""
        line = said(console, uuid)
        if line is None:
            self._read[uuid] = size
            return ""
        return await asyncio.to_thread(words, line, await bootstrap_data())

    def forget(self, uuid: str) -> None:
        self._read.pop(uuid, None)


def said(console: bytes, uuid: str) -> str | None:
    """What the last line that tells of a failure says, as it is there; None where none is whole.

    >>> said(b"\\nsteelyard: bootstrap of 1-2 failed: port 6443 is in use\\n", "1-2")
    'port 6443 is in use'
    """
    mark = watching.mark(uuid).encode()
    end = len(console)
    while (start := console.rfind(mark, 0, end)) >= 0:
        first = start + len(mark)
        line = console[first : first + _LONGEST_LINE]
        if b"\n" in line or len(line) == _LONGEST_LINE:
            return line.partition(b"\n")[0].decode(errors="replace")
        end = start
    return None


def words(line: str, bootstrap_data: bytes = b"") -> str:
    """Nothing but text, without secrets, and no more than is read; never empty.

    >>> words("\\x1b[31mtoken abcdef.0123456789abcdef\\x1b[0m is invalid")
    'token ****** is invalid'
    """
    plain = "".join(each if each.isprintable() else " " if each in "\t\r" else "" for each in _ESCAPES.sub("", line))
    if len(plain) > _CONSIDERED:
        # The last word may be the beginning of a secret, and would no longer look like one.
        plain = plain[:_CONSIDERED].rpartition(" ")[0]
    shown = " ".join(masking.hide(plain, bootstrap_data).split())
    return (f"{shown[: LONGEST - 2]} …" if len(shown) > LONGEST else shown) or "it does not say why"


def told(name: str, failure: str) -> str:
    """For people, who are to know what to do."""
    return (
        f"its bootstrap has failed, and it does not become a Node by itself: {failure}. Its console has the rest: "
        f"steelyard logs machine {name}. Mend the cause and delete the Machine, and another is made"
    )


def known(infrastructure: Object) -> str:
    """What was told of it before: cloud-init does not try a second time, so that it holds until the Node is seen."""
    is_known = conditions.reason_of(infrastructure, "Ready") == FAILED
    return conditions.message_of(infrastructure, "Ready") if is_known else ""

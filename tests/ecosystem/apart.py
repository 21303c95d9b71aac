"""A program in a network of its own, which reaches one port of this machine and nothing else: for programs that insist
on ports that others have (8080 for metrics, 9443 for webhooks), whichever those are.

    python -m tests.ecosystem.apart PORT -- PROGRAM ARGUMENTS...

Loopback in there is its own; whoever connects to the port there is led through a socket in a folder of its own to the
same port out here. The network goes away with the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_CHUNK = 1 << 16


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def _led(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, port: int = 0, socket: str = "") -> None:
    """To the port on loopback, or to the socket."""
    try:
        there = await (asyncio.open_connection("127.0.0.1", port) if port else asyncio.open_unix_connection(socket))
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copied(reader, there[1]), _copied(there[0], writer))


async def _outside(port: int, command: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="apart-") as folder:
        socket = str(Path(folder) / "socket")
        await asyncio.start_unix_server(lambda reader, writer: _led(reader, writer, port=port), socket)
        inside = [sys.executable, "-m", "tests.ecosystem.apart", "--inside", str(port), socket, "--", *command]
        return await _run(["unshare", "--net", "--", *inside])


async def _inside(port: int, socket: str, command: Sequence[str]) -> int:
    await (await asyncio.create_subprocess_exec("ip", "link", "set", "lo", "up")).wait()
    await asyncio.start_server(lambda reader, writer: _led(reader, writer, socket=socket), "127.0.0.1", port)
    return await _run(command)


async def _run(command: Sequence[str]) -> int:
    """Ends when the program does; told to end, it tells the program."""
    process = await asyncio.create_subprocess_exec(*command)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda number=number: process.send_signal(number))
    return await process.wait()


def main() -> int:
    head, command = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    if head[0] == "--inside":
        return asyncio.run(_inside(int(head[1]), head[2], command))
    return asyncio.run(_outside(int(head[0]), command))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())

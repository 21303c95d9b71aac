"""`steelyard` in a process of its own, as a user runs it, but loaded once for all commands of a test process.

    done = forked.run(["get"], cwd=folder, environment={...}, given="", timeout=60)

A process that has loaded the program waits for commands and forks for each. Only what is about the start of the program
itself, or sends it signals, starts one anew.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

_ROOT: Final = Path(__file__).parent.parent
_MESSAGE: Final = 1024 * 1024
_STANDARD: Final = 3
_LOADED: Final = ("steelyard.__main__", "steelyard.cli.main", "steelyard.kube.client.http")
_LOADED_WITHIN: Final = 120.0


def run(
    arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], given: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired, and nothing of it is left then."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given.encode())
        stdin.seek(0)
        code = _forker().command(arguments, cwd, environment, [stdin, out, err], timeout)
        told = [_text(each) for each in (out, err)]
    return subprocess.CompletedProcess(["steelyard", *arguments], code, *told)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class _Forker:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.set_inheritable(True)
            # It ends when this end is closed, also by this process being killed, and not by Ctrl-C before.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket.settimeout(_LOADED_WITHIN)
        self._socket.recv(_MESSAGE)

    def command(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        files: list[IO[bytes]],
        timeout: float,
    ) -> int:
        self._socket.settimeout(timeout)
        asked = {"arguments": list(arguments), "cwd": str(cwd), "environment": dict(environment)}
        socket.send_fds(self._socket, [json.dumps(asked).encode()], [each.fileno() for each in files])
        pid = int(self._socket.recv(_MESSAGE))
        try:
            return int(self._socket.recv(_MESSAGE))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            self._socket.recv(_MESSAGE)
            raise subprocess.TimeoutExpired(["steelyard", *arguments], timeout) from None

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _forker() -> _Forker:
    return _Forker()


def end() -> None:
    if _forker.cache_info().currsize:
        _forker().end()
        _forker.cache_clear()


def _serve(connection: socket.socket) -> None:
    """Returns in the process that is a command, made up as that."""
    connection.send(b"loaded")
    while True:
        message, files, _, _ = socket.recv_fds(connection, _MESSAGE, _STANDARD)
        if not message:
            raise SystemExit
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(json.loads(message), files)
            return
        for each in files:
            os.close(each)
        connection.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(asked: dict[str, Any], files: list[int]) -> None:
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    os.chdir(asked["cwd"])
    program = sys.modules[_LOADED[0]]
    sys.modules["__main__"] = program
    sys.argv = [str(program.__file__), *asked["arguments"]]


def _main() -> None:
    program, *_ = map(importlib.import_module, _LOADED)
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    program.main()


if __name__ == "__main__":
    _main()

"""`steelyard` in a process of its own, as a user runs it, but loaded once for all processes of a test run.

    done = forked.run(["get"], cwd=folder, environment={...}, given="", timeout=120)
    platform = forked.start(["up"], cwd=folder, environment={...}, output=log)
    watching = forked.piped(["get", "-w"], cwd=folder, environment={...})

A process that has loaded the program waits for requests and forks for each: loading takes longer than most of what is
tested. Only what is about the start of the program itself, or measures its memory, starts one anew.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent import futures
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final

STEELYARD: Final = "steelyard.__main__"
VICTIM: Final = "tests.victim"
SECOND: Final = "tests.seams.__main__"
"""Programs: modules with a `main`."""

_LOADED: Final = (STEELYARD, VICTIM, SECOND, "steelyard.cli.main", "steelyard.kube.client.http", "tests.warm")
_ROOT: Final = Path(__file__).parent.parent
_MESSAGE: Final = 1024 * 1024
_FILES: Final = 4
_LOADED_WITHIN: Final = 120.0
_ENDED_WITHIN: Final = 120.0


def run(
    arguments: Sequence[str],
    *,
    cwd: Path = _ROOT,
    environment: Mapping[str, str] = os.environ,
    given: str = "",
    timeout: float = _ENDED_WITHIN,
    program: str = STEELYARD,
) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired, and nothing of it is left then."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given.encode())
        stdin.seek(0)
        given_to = (stdin.fileno(), out.fileno(), err.fileno())
        process = Process(arguments, _forker().start(program, arguments, cwd, environment, given_to))
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        told = [_text(each) for each in (out, err)]
    return subprocess.CompletedProcess(["steelyard", *arguments], code, *told)


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    output: IO[bytes],
    program: str = STEELYARD,
) -> Process:
    """The first process of a session of its own; what it prints goes to one file."""
    with Path(os.devnull).open("rb") as nothing:
        given = (nothing.fileno(), output.fileno(), output.fileno())
        return Process(arguments, _forker().start(program, arguments, cwd, environment, given))


def at_terminal(arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], terminal: int) -> Process:
    """With a terminal, given by its descriptor, to read from and to print to."""
    return Process(arguments, _forker().start(STEELYARD, arguments, cwd, environment, (terminal,) * 3))


def piped(arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> Piped:
    """What it prints is read while it runs."""
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    try:
        with Path(os.devnull).open("rb") as nothing:
            told = _forker().start(STEELYARD, arguments, cwd, environment, (nothing.fileno(), out_end, err_end))
    finally:
        os.close(out_end)
        os.close(err_end)
    return Piped(arguments, told, os.fdopen(out), os.fdopen(err))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class Process:
    """To be used like a `subprocess.Popen`; it is another's child, who tells by a pipe how it ended."""

    def __init__(self, arguments: Sequence[str], told: int) -> None:
        self.args = ["steelyard", *arguments]
        self.returncode: int | None = None
        self._told = told
        self._read = b""
        self.pid = int(self._line(None))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = int(self._line(timeout))
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        # It may have ended already, and that has not been told yet.
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _line(self, timeout: float | None) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._read:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._told], [], [], left)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            more = os.read(self._told, 100)
            if not more:
                raise RuntimeError(f"{' '.join(self.args)}: nobody can tell any more how it ended")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._told)


class Piped(Process):
    def __init__(self, arguments: Sequence[str], told: int, stdout: IO[str], stderr: IO[str]) -> None:
        super().__init__(arguments, told)
        self.stdout = stdout
        self.stderr = stderr

    def communicate(self, timeout: float = _ENDED_WITHIN) -> tuple[str, str]:
        """Until its end, which a process that does not come to it in time is brought to."""
        with futures.ThreadPoolExecutor(2) as readers, self.stdout, self.stderr:
            out, err = readers.submit(self.stdout.read), readers.submit(self.stderr.read)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return out.result(), err.result()


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

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        files: Sequence[int],
    ) -> int:
        """A descriptor from which can be read which process it is, and how it ended."""
        told, telling = os.pipe()
        asked = {
            "program": program,
            "arguments": list(arguments),
            "cwd": str(cwd),
            "environment": dict(environment),
        }
        try:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], [*files, telling])
        finally:
            os.close(telling)
        return told

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


def _serve(connection: socket.socket) -> ModuleType:
    """Returns in each process that is asked for, made up as that: the program."""
    woken, waking = socket.socketpair()
    for each in (woken, waking):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    telling: dict[int, int] = {}
    connection.send(b"loaded")
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            woken.recv(_MESSAGE)
            _tell_ends(telling)
        if connection not in ready:
            continue
        message, files, _, _ = socket.recv_fds(connection, _MESSAGE, _FILES)
        if not message:
            raise SystemExit
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for each in (connection, woken, waking):
                each.close()
            _tell(files[-1], os.getpid())
            for each in (files.pop(), *telling.values()):
                os.close(each)
            return _become(json.loads(message), files)
        telling[pid] = files.pop()
        for each in files:
            os.close(each)


def _tell_ends(telling: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = found
            _tell(telling[pid], os.waitstatus_to_exitcode(status))
            os.close(telling.pop(pid))


def _tell(whom: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(whom, b"%d\n" % number)


def _become(asked: dict[str, Any], files: list[int]) -> ModuleType:
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    os.chdir(asked["cwd"])
    program = sys.modules[asked["program"]]
    sys.modules["__main__"] = program
    sys.argv = [str(program.__file__), *asked["arguments"]]
    return program


def _main() -> None:
    for each in _LOADED:
        importlib.import_module(each)
    gc.collect()
    gc.freeze()
    program: Any = _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        program.main()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        _end(ended.code or 0)
    _end(0)


def _end(code: int) -> None:
    """As Python ends a process, but for taking everything apart that was loaded: to touch all of it is to copy it."""
    threading._shutdown()  # pyright: ignore
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for each in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            each.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()

"""pg_dump, pg_restore and psql: where they are, and how they are run so that they end when this process does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO, Final

from steelyard.masking import faults
from steelyard.masking.sessions import SERVICE, Session

_SET_PARENT_DEATH_SIGNAL: Final = 1
_LIBC: Final = ctypes.CDLL(None)
_OUTPUT_BYTES: Final = 64 * 1024


class Programs:
    def __init__(self, folder: str | None, deadline: float) -> None:
        """The deadline is one of `time.monotonic`."""
        self._folder = folder
        self._deadline = deadline

    def path(self, name: str) -> str:
        found = shutil.which(name, path=self._folder) if self._folder else shutil.which(name)
        if found is None:
            where = self._folder or "PATH"
            raise faults.Failed(f"{name} is not in {where}: install PostgreSQL's client programs (postgresql-client)")
        return found

    def run(
        self, name: str, arguments: Sequence[str], session: Session | None, doing: str, *, fds: Sequence[int] = ()
    ) -> bytes:
        """What it printed; a Failed that tells the end of what it complained of."""
        with self._started(name, arguments, session, fds=fds, stdout=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=max(0.1, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise faults.Failed(f"{doing}: not finished by the deadline") from None
        if process.returncode:
            raise faults.of_program(name, process.returncode, err.decode(errors="replace"), doing)
        return out

    def pipe(
        self, source: tuple[Session, Sequence[str], Sequence[int]], target: tuple[Session, Sequence[str]], doing: str
    ) -> str:
        """What one psql prints is the other's input; returns what the other printed."""
        with (
            self._started("psql", source[1], source[0], fds=source[2], stdout=subprocess.PIPE) as sender,
            self._started("psql", target[1], target[0], stdin=sender.stdout, stdout=subprocess.PIPE) as receiver,
        ):
            assert sender.stdout is not None
            sender.stdout.close()
            try:
                out, complaint = receiver.communicate(timeout=max(0.1, self._deadline - time.monotonic()))
                sender.wait(max(0.1, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise faults.Failed(f"{doing}: not finished by the deadline") from None
            assert sender.stderr is not None
            sent = sender.stderr.read(_OUTPUT_BYTES).decode(errors="replace")
        # When the receiver fails, the sender only finds its pipe closed; when the sender fails, the receiver misses
        # the end.
        if receiver.returncode and sender.returncode in (0, -signal.SIGPIPE):
            raise faults.of_program(
                "psql", receiver.returncode, complaint.decode(errors="replace"), f"{doing}, writing"
            )
        if sender.returncode:
            raise faults.of_program("psql", sender.returncode, sent, f"{doing}, reading")
        if receiver.returncode:
            raise faults.of_program(
                "psql", receiver.returncode, complaint.decode(errors="replace"), f"{doing}, writing"
            )
        return out.decode(errors="replace")

    @contextlib.contextmanager
    def _started(
        self,
        name: str,
        arguments: Sequence[str],
        session: Session | None,
        *,
        fds: Sequence[int] = (),
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
    ) -> Generator[subprocess.Popen[bytes]]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        with contextlib.ExitStack() as stack:
            handed = list(fds)
            if session is not None:
                descriptor = stack.enter_context(session.service_file())
                environment |= {"PGSERVICEFILE": f"/proc/self/fd/{descriptor}", "PGSERVICE": SERVICE}
                handed.append(descriptor)
            process = subprocess.Popen(  # noqa: S603 - PostgreSQL's own programs
                [self.path(name), *arguments],
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=handed,
                preexec_fn=_die_with_parent,
            )
            with process:
                try:
                    yield process
                finally:
                    if process.poll() is None:
                        process.kill()


@contextlib.contextmanager
def in_memory(name: str, content: bytes = b"") -> Generator[int]:
    """A file that a program can open as `path_of(...)`, and that goes with this process."""
    descriptor = os.memfd_create(name, 0)
    try:
        if content:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        yield descriptor
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    return str(Path("/proc/self/fd") / str(descriptor))


def _die_with_parent() -> None:
    # Between fork and exec: one system call, and nothing of Python that could be locked.
    _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)

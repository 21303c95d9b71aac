"""The process that reads and writes for a server what would stop it.

It is started as `python -m steelyard.kube.server.bodies.workerprocess`.

PyYAML holds Python's lock for as long as it reads, which would stop every server of the process, and a few bytes of
protobuf may stand for many times as much JSON. Jobs come on standard input and results leave on standard output, one
after the other:

    b"r" + length + YAML      ->  b"." + length of the list of repeated keys + length + that list as JSON + JSON
    b"p" + length + protobuf  ->  b"." + 0 + length + JSON
    b"w" + length + JSON      ->  b"." + 0 + length + YAML
    b"b" + length + JSON      ->  b"." + 0 + length + protobuf
    b"i" + length + JSON      ->  b"." + 0 + length + indented JSON
                                  b"!" + length of the name + length of the message + name + message

It ends with its input, after a while without a job, after one that has left it large, and when it would need more
memory than it may have.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
import sys
from typing import IO, Final

import orjson

from steelyard.kube import errors
from steelyard.kube.server.bodies import syntax
from steelyard.kube.server.bodies.negotiation import Format
from steelyard.kube.server.fairness import budgets, memory

JOB: Final = struct.Struct("!cQ")
RESULT: Final = struct.Struct("!cQQ")
READ, READ_PROTOBUF, WRITE, WRITE_PROTOBUF, INDENT = b"r", b"p", b"w", b"b", b"i"
DONE, FAILED = b".", b"!"
_FORMS: Final[dict[bytes, Format]] = {WRITE: "yaml", WRITE_PROTOBUF: "protobuf", INDENT: "json"}
_MAX_MEMORY: Final = 1 << 30
_KEPT_MEMORY: Final = 40 << 20
"""What it may hold between two jobs, including the 17 MB that it needs at all."""
_IDLE_SECONDS: Final = 10
_NICE: Final = 5


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    os.nice(_NICE)
    memory.tune()
    given, taken = sys.stdin.buffer, sys.stdout.buffer
    while select.select([given], [], [], _IDLE_SECONDS)[0] and (head := given.read(JOB.size)):
        work, length = JOB.unpack(head)
        _answer(taken, work, given.read(length))
        memory.trim()
        if memory.resident() > _KEPT_MEMORY:
            return


def _answer(taken: IO[bytes], work: bytes, data: bytes) -> None:
    try:
        first, second = _done(work, data)
        status = DONE
    except (errors.ApiError, syntax.Unreadable) as error:
        status, first, second = FAILED, type(error).__name__.encode(), str(error).encode()
    taken.write(RESULT.pack(status, len(first), len(second)))
    taken.write(first)
    taken.write(second)
    taken.flush()


def _done(work: bytes, data: bytes) -> tuple[bytes, bytes]:
    # The server imports this module as well, and rarely needs any of these.
    if work in _FORMS:
        from steelyard.kube.server.bodies import forms

        return b"", forms.encode(orjson.loads(data), _FORMS[work], pretty=True)
    if work == READ_PROTOBUF:
        from steelyard.kube.builtin import protobuf

        try:
            return b"", orjson.dumps(protobuf.decode(data))
        except (RecursionError, TypeError):
            raise budgets.too_deep() from None
    from steelyard.kube.server.bodies import yamlbodies

    value, repeated = yamlbodies.load(data)
    return orjson.dumps(repeated), orjson.dumps(value)


if __name__ == "__main__":
    main()

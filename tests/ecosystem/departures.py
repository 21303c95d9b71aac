"""Which objects went, and in which order: by the revision at which the API server says that each was deleted.

kubectl watches kinds meanwhile. Looking now and then would not do: what goes within one look has no order.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from typing import Final

from tests.kubectl import Kubectl

_SHOWN: Final = '{.type} {.object.metadata.name} {.object.metadata.resourceVersion}{"\\n"}'
_SECONDS: Final = 60.0


class Departures:
    def __init__(self) -> None:
        self.revisions: dict[str, dict[str, int]] = {}
        """By kind as it was asked for, and by name."""
        self.seen: set[str] = set()

    def last(self, *kinds: str) -> int:
        return max(self._of(*kinds))

    def first(self, *kinds: str) -> int:
        return min(self._of(*kinds))

    def _of(self, *kinds: str) -> list[int]:
        found = [revision for kind in kinds for revision in self.revisions.get(kind, {}).values()]
        assert found, f"none of {kinds} went; what went is {self.revisions}"
        return found

    def read(self, kind: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            what, _, rest = line.strip().partition(" ")
            self.seen.add(kind)
            if what == "DELETED":
                name, _, revision = rest.partition(" ")
                self.revisions.setdefault(kind, {})[name] = int(revision)


@contextlib.contextmanager
def watched(kube: Kubectl, kinds: Sequence[str]) -> Generator[Departures]:
    """Each kind must have an object already: by that it is known that the watch has begun."""
    told = Departures()
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            process = kube.start("get", kind, "-A", "--watch", "--output-watch-events", "-o", f"jsonpath={_SHOWN}")
            reader = threading.Thread(target=told.read, args=(kind, process), daemon=True)
            reader.start()
            stack.callback(_end, process, reader)
        deadline = time.monotonic() + _SECONDS
        while missing := set(kinds) - told.seen:
            assert time.monotonic() < deadline, f"not watched: {sorted(missing)}"
            time.sleep(0.2)
        yield told


def _end(process: subprocess.Popen[str], reader: threading.Thread) -> None:
    process.terminate()
    process.wait(20)
    reader.join(20)
    if process.stdout is not None:
        process.stdout.close()

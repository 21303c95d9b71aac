"""What can go wrong in the store, each with a meaning for the caller."""

from __future__ import annotations

from collections.abc import Sequence


class StoreError(Exception):
    """Any failure of the store."""


class Mismatch(StoreError):
    """The key's newest revision is not the expected one (0: the key does not exist). Nothing was written."""

    def __init__(self, key: str, expected: int | None, actual: int) -> None:
        wanted = "any revision" if expected is None else f"revision {expected}"
        super().__init__(f"{key}: expected {wanted}, found {actual or 'nothing'}")
        self.key = key
        self.expected = expected
        self.actual = actual


class Compacted(StoreError):
    """The asked-for revision is older than what is retained: list again and start from there."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(f"revision {revision} is no longer retained; the oldest retained is {compacted}")
        self.revision = revision
        self.compacted = compacted


class Lagging(StoreError):
    """The subscriber fell too far behind and was cut off: list again and watch from there."""

    def __init__(self, prefix: str, limit: int) -> None:
        super().__init__(f"the watch of {prefix!r} fell more than {limit} changes behind")
        self.prefix = prefix
        self.limit = limit


class Corrupt(StoreError):
    """The file does not hold what was written to it. The store answers nothing rather than something wrong."""


class Missing(StoreError):
    """The file is not there, and what is beside it shows that it was. Nothing has been touched."""

    def __init__(self, path: object, traces: Sequence[str]) -> None:
        super().__init__(f"{path} is missing or empty, but it has been written to before: there is {', '.join(traces)}")
        self.traces = traces


class CannotDecrypt(StoreError):
    """A value is encrypted with a key that is not there. The store is not served without it."""

    def __init__(self, key: str, revision: int, identifier: str, problem: str) -> None:
        super().__init__(f"{key} at revision {revision} is encrypted: the key {identifier} {problem}")
        self.identifier = identifier


class Locked(StoreError):
    """Another process (or this one, a second time) has the store open."""

    def __init__(self, path: str, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is already open in {holder}; stop that process first")
        self.path = path
        self.pid = pid


class StoreFailed(StoreError):
    """A write could not be made durable; nothing of it is visible.

    `retryable` tells whether the store goes on (the disk was full) or refuses every write until it is opened again (the
    disk failed, after which nobody knows what an fsync is worth). In the second case a reopened store may turn out to
    hold the write.
    """

    def __init__(self, cause: BaseException, path: object, *, retryable: bool, damaged: bool = False) -> None:
        if retryable:
            text = f"the disk is full: nothing was written ({cause}); free some space for {path} and try again"
        else:
            advice = "restore a backup" if damaged else "restart once the disk is healthy"
            text = f"the write to {path} could not be made durable: {cause}; {advice}"
        super().__init__(text)
        self.cause = cause
        self.retryable = retryable


class Closed(StoreError):
    """The store has been closed."""

    def __init__(self) -> None:
        super().__init__("the store is closed")

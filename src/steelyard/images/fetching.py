"""Fetches files by URL, bounded in bytes and in time, and checks what was fetched before anybody has it."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from steelyard.images.failing import BuildFailed

_SCHEMES: Final = ("http", "https", "file")
_SECONDS: Final = 60.0
"""Without a byte."""
_PIECE: Final = 1 << 20


def text(url: str, largest: int) -> str:
    with _opened(url, _SECONDS) as answer:
        content = _whole(url, answer, largest)
    try:
        return content.decode()
    except ValueError:
        raise BuildFailed(f"{url} is no text") from None


def answers(url: str, seconds: float) -> bool:
    """Whether the file is there, as far as that can be known in so many seconds."""
    try:
        with _opened(url, seconds) as answer:
            return bool(answer.read(1))
    except (BuildFailed, OSError, http.client.HTTPException):
        return False


def file(url: str, target: Path, sha256: str, largest: int) -> None:
    """Puts what is at the URL into a file, if that is what it should be. Otherwise there is none."""
    hashed, size = hashlib.sha256(), 0
    try:
        with _opened(url, _SECONDS) as answer, target.open("xb") as written:
            try:
                while piece := answer.read(_PIECE):
                    size += len(piece)
                    if size > largest:
                        raise BuildFailed(f"{url} has more than {largest >> 20} MiB: that is not what was asked for")
                    hashed.update(piece)
                    written.write(piece)
            except http.client.HTTPException as error:
                raise BuildFailed(f"{url} broke off after {size} bytes: {error}") from None
        if hashed.hexdigest() != sha256:
            raise BuildFailed(f"{url} has the checksum {hashed.hexdigest()}, and should have {sha256}: it is not used")
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _whole(url: str, answer: IO[bytes], largest: int) -> bytes:
    try:
        content = answer.read(largest + 1)
    except (OSError, http.client.HTTPException) as error:
        raise BuildFailed(f"{url} broke off: {error}") from None
    if len(content) > largest:
        raise BuildFailed(f"{url} has more than {largest} bytes: that is not what was asked for")
    return content


@contextmanager
def _opened(url: str, seconds: float) -> Generator[IO[bytes]]:
    if urlsplit(url).scheme not in _SCHEMES:
        raise BuildFailed(f"{url} is no URL of {', '.join(_SCHEMES)}")
    try:
        answer = urllib.request.urlopen(url, timeout=seconds)  # noqa: S310 (the scheme was looked at)
    except urllib.error.HTTPError as error:
        error.close()
        raise BuildFailed(f"{url} answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise BuildFailed(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from None
    with answer:
        yield answer

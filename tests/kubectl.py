"""The real kubectl, as a user types it: what it prints, what it says when it is refused."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.kube.objects import Object


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


class Kubectl:
    def __init__(self, program: str, kubeconfig: Path, cache: Path, namespace: str = "default") -> None:
        self.command = [program, "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache)]
        self.namespace = namespace

    def with_token(self, token: str, folder: Path) -> Kubectl:
        """kubectl as nobody but the bearer of the token."""
        config = self.json("config", "view", "--raw")
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        path = folder / "token.kubeconfig"
        path.write_text(json.dumps(config))
        return Kubectl(self.command[0], path, folder / "token.cache", self.namespace)

    def try_(self, *arguments: str, stdin: Object | str = "", editor: Path | None = None) -> Done:
        done = subprocess.run(
            self._line(*arguments),
            input=stdin if isinstance(stdin, str) else json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "KUBE_EDITOR": str(editor)} if editor is not None else None,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: Object | str = "", editor: Path | None = None) -> str:
        done = self.try_(*arguments, stdin=stdin, editor=editor)
        assert done.code == 0, f"{arguments}: {done}"
        return done.out

    def refused(self, *arguments: str, stdin: Object | str = "") -> str:
        """What kubectl says on stderr; it must have failed."""
        done = self.try_(*arguments, stdin=stdin)
        assert done.code != 0, f"{arguments}: {done}"
        return done.err

    def json(self, *arguments: str, stdin: Object | str = "") -> Any:
        return json.loads(self(*arguments, "-o", "json", stdin=stdin))

    def names(self, *arguments: str) -> list[str]:
        return [name.partition("/")[2] for name in self("get", *arguments, "-o", "name").split()]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self._line(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def await_names(self, expected: list[str], *arguments: str) -> None:
        """Garbage is collected after the answer, in the background."""
        deadline = time.monotonic() + 60
        while (found := self.names(*arguments)) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def _line(self, *arguments: str) -> list[str]:
        return [*self.command, "--namespace", self.namespace, *arguments]

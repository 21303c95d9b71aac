"""Copies as a caller makes them: by the process, with its job on standard input."""

from __future__ import annotations

import itertools
import json
import secrets
import subprocess
import sys
from typing import Any, Final

from tests.postgresserver import PostgresServer

Rules = dict[str, Any]

KEY: Final = "0123456789abcdef" * 4
PROGRAM: Final = [sys.executable, "-m", "steelyard.masking"]
_DEADLINE: Final = 120
_numbers = itertools.count(1)


def fresh_name(what: str) -> str:
    return f"{what}_{next(_numbers)}_{secrets.token_hex(3)}"


def job(server: PostgresServer, source: str, target: str | None, rules: Rules, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "source": {"dsn": server.dsn(source)},
        "rules": rules,
        "key": KEY,
        "programs": str(server.programs),
        **more,
    }
    if target is not None:
        given["target"] = {"dsn": server.dsn(target)}
    return given


def process(given: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The verdict, and the lines before it."""
    done = subprocess.run(
        PROGRAM,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        check=False,
    )
    assert done.stdout, done.stderr
    *before, verdict = (json.loads(line) for line in done.stdout.splitlines())
    assert not done.stderr, done.stderr
    assert done.returncode == {"copied": 0, "planned": 0, "failed": 1, "refused": 2, "leaked": 3}[verdict["verdict"]]
    return verdict, before


def clone(server: PostgresServer, source: str, rules: Rules, **more: Any) -> tuple[str, dict[str, Any]]:
    """The copy's name, and the verdict."""
    target = fresh_name("copy")
    server.create_database(target)
    return target, process(job(server, source, target, rules, **more))[0]

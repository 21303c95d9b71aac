"""The paths that are no resources and not the API's own: health, version, metrics."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server import answers, metrics, routing
from steelyard.kube.server.answers import Answer
from steelyard.kube.server.metrics import RequestMetrics

Check = Callable[[], str | None]
"""What is wrong, or None."""

_HEALTH: Final = ("healthz", "livez", "readyz")


class Endpoints:
    def __init__(self, version: str, checks: Mapping[str, Check], request_metrics: RequestMetrics) -> None:
        self._version = orjson.dumps(version_info(version))
        self._checks: dict[str, Check] = {"ping": lambda: None, **checks}
        self._metrics = request_metrics

    def answer(self, method: str, path: str, options: Mapping[str, str]) -> Answer | None:
        """None if the path is none of these."""
        first, _, rest = path.strip("/").partition("/")
        if first in _HEALTH:
            found = self._health(first, rest, verbose="verbose" in options)
        elif rest:
            return None
        elif first == "version":
            found = Answer(200, self._version)
        elif first == "metrics":
            found = Answer(200, self._metrics.exposition(), metrics.CONTENT_TYPE.encode())
        else:
            return None
        if method not in ("GET", "HEAD"):
            raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
        return found

    def _health(self, endpoint: str, only: str, *, verbose: bool) -> Answer:
        if only and only not in self._checks:
            raise routing.not_found()
        checks = {only: self._checks[only]} if only else self._checks
        problems = {name: check() for name, check in checks.items()}
        failed = any(problem is not None for problem in problems.values())
        if not failed and not verbose:
            return answers.text(200, "ok")
        lines = [
            f"[+]{name} ok" if problem is None else f"[-]{name} failed: {problem}" for name, problem in problems.items()
        ]
        lines.append(f"{endpoint} check {'failed' if failed else 'passed'}\n")
        return answers.text(500 if failed else 200, "\n".join(lines))


def version_info(version: str) -> Object:
    """What `kubectl version` shows as the server's: `v1.34.4` is major 1, minor 34."""
    major, minor, *_ = [*version.removeprefix("v").split("."), ""]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }

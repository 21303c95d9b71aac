"""The paths that are no resources and not the API's own: health, version, metrics.

They answer whatever the method, as upstream's do, except that `/version` is only read and that nobody can reset the
metrics, which several servers of a process may share.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server import routing
from steelyard.kube.server.bodies import answers, negotiation
from steelyard.kube.server.bodies.answers import Answer
from steelyard.kube.server.transport import metrics
from steelyard.kube.server.transport.metrics import RequestMetrics

Check = Callable[[], str | None]
"""What is wrong, or None."""

_HEALTH: Final = ("healthz", "livez", "readyz")
_NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class HealthPaths:
    def __init__(self, version: str, checks: Mapping[str, Check], request_metrics: RequestMetrics) -> None:
        self._version = b""
        self.tell_version(version)
        self._checks: dict[str, Check] = {"ping": lambda: None, **checks}
        self._metrics = request_metrics
        self.paths = sorted(
            [
                "/metrics",
                "/version",
                *(f"/{name}" for name in _HEALTH),
                *(f"/{name}/{check}" for name in _HEALTH for check in self._checks),
            ]
        )

    def tell_version(self, version: str) -> None:
        """What `/version` says from now on."""
        self._version = orjson.dumps(version_info(version))

    def answer(self, method: str, path: str, query: bytes, accept: str) -> Answer | None:
        """None if the path is none of these."""
        first, slash, rest = path[1:].partition("/")
        if first in _HEALTH:
            return self._single(rest) if slash else self._all(first, query)
        if first == "version":
            return self._told(method, rest, accept)
        if path == "/metrics":
            if method == "DELETE":
                raise errors.MethodNotAllowed(_NOT_ALLOWED)
            return Answer(200, self._metrics.exposition(), metrics.CONTENT_TYPE.encode())
        return None

    def _told(self, method: str, rest: str, accept: str) -> Answer:
        if rest:
            raise errors.NotFound("the server could not find the requested resource")
        if method != "GET":
            raise errors.MethodNotAllowed(_NOT_ALLOWED)
        negotiation.check_json(accept)
        return Answer(200, self._version)

    def _single(self, name: str) -> Answer | None:
        check = self._checks.get(name)
        if check is None:
            return None
        problem = check()
        return answers.text(200, "ok") if problem is None else answers.text(500, f"internal server error: {problem}\n")

    def _all(self, path: str, query: bytes) -> Answer:
        """`?verbose` lists every check, `?exclude=<check>` leaves one out; both as upstream writes it.

        Anybody may ask, so reasons, with paths and addresses in them, are told at `/readyz/<check>` alone, which takes
        a right to read.
        """
        options = routing.pairs(query)
        excluded = [value for key, value in options if key == "exclude"]
        lines: list[str] = []
        failed = False
        for name, check in self._checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif check() is None:
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                failed = True
        unknown = [name for name in dict.fromkeys(excluded) if name not in self._checks]
        if unknown:
            named = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
        if not failed and all(key != "verbose" for key, _ in options):
            return answers.text(200, "ok")
        lines.append(f"{path} check {'failed' if failed else 'passed'}\n")
        return answers.text(500 if failed else 200, "\n".join(lines))


def version_info(version: str) -> Object:
    """What `kubectl version` shows as the server's: `v1.34.4` is major 1, minor 34."""
    major, minor, *_ = [*version.removeprefix("v").split("."), ""]
    older = str(int(minor) - 1) if minor.isdigit() and int(minor) else minor
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": older,
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{_MACHINES.get(platform.machine(), platform.machine())}",
    }

"""What the fuzzer found: each kind of 5xx once, with a request small enough to be read."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import orjson

from tests.soak.fuzz.request import Request
from tests.soak.fuzz.situation import NOTHING, Situation
from tests.soak.fuzz.wire import Answer

Send = Callable[[Request], Awaitable[Answer | None]]

_VARIES: Final = re.compile(rb"\d+|\"[^\"]*\"|0x[0-9a-f]+")
_ATTEMPTS: Final = 300
_LOOKS: Final = 5
"""How often a situation is taken before it is given up that the same answer comes in one."""


@dataclass(slots=True)
class Finding:
    request: Request
    answer: Answer
    before: tuple[Request, ...] = ()
    """What was sent in the same sequence before it."""
    times: int = 1
    upstream: Answer | None = None
    situation: Situation = NOTHING
    smallest: Request | None = None
    """With everything left out that does not change the answer."""
    is_repeated: bool = False
    """Whether the same answer came in the situation that was taken."""
    looks: int = 0

    @property
    def wants_a_situation(self) -> bool:
        return not self.is_repeated and self.looks < _LOOKS

    @property
    def shapes(self) -> tuple[Request, ...]:
        return (self.request,) if self.smallest is None else (self.smallest, self.request)

    @property
    def is_unforeseen(self) -> bool:
        """Whether the server says so itself; what it answers on purpose, upstream answers as well."""
        return b"the server logged what went wrong" in self.answer.body

    @property
    def is_ours_alone(self) -> bool:
        return self.upstream is None or not self.upstream.is_failure

    def text(self, token: str = "$TOKEN") -> str:
        lines = [f"{self.answer.code}, {self.times} times, for", _shown(self.shapes[0].encoded(token))]
        lines.append(f"  ours:     {_shown(self.answer.body)}")
        if self.upstream is not None:
            lines.append(f"  upstream: {self.upstream.code} {_shown(self.upstream.body)}")
        return "\n".join(lines)


class Findings:
    def __init__(self) -> None:
        self._found: dict[tuple[int, bytes], Finding] = {}

    def add(self, request: Request, answer: Answer, before: tuple[Request, ...]) -> Finding:
        key = signature(answer)
        if key in self._found:
            self._found[key].times += 1
        else:
            self._found[key] = Finding(request, answer, before)
        return self._found[key]

    def all(self) -> list[Finding]:
        return list(self._found.values())


def signature(answer: Answer) -> tuple[int, bytes]:
    """Equal for two answers to the same mistake."""
    return answer.code, _VARIES.sub(b"", answer.body)[:200]


async def minimised(finding: Finding, send: Send) -> tuple[Request, Answer]:
    """The request with everything left out that does not change the answer, as far as a few hundred attempts go."""
    wanted = signature(finding.answer)
    request, given = finding.request, finding.answer
    left = _ATTEMPTS
    shrinking = True
    while shrinking and left > 0:
        shrinking = False
        for smaller in _smaller(request):
            left -= 1
            answer = await send(smaller)
            if answer is not None and signature(answer) == wanted:
                request, given, shrinking = smaller, answer, True
                break
            if left <= 0:
                break
    return request, given


def _smaller(request: Request) -> Iterator[Request]:
    if request.raw is not None:
        return
    for position in range(len(request.query)):
        yield replace(request, query=request.query[:position] + request.query[position + 1 :])
    for position in range(len(request.headers)):
        yield replace(request, headers=request.headers[:position] + request.headers[position + 1 :])
    try:
        value = orjson.loads(request.body or b"")
    except orjson.JSONDecodeError:
        return
    for less in _less(value):
        yield replace(request, body=orjson.dumps(less))


def _less(value: Any) -> Iterator[Any]:
    """The value without one of its parts, the largest parts first."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        for key in mapping:
            yield {name: each for name, each in mapping.items() if name != key}
        for key, each in mapping.items():
            for less in _less(each):
                yield {**mapping, key: less}
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        for position in range(len(items)):
            yield items[:position] + items[position + 1 :]
        for position, each in enumerate(items):
            for less in _less(each):
                yield [*items[:position], less, *items[position + 1 :]]
    elif isinstance(value, str) and len(value) > 20:
        yield value[: len(value) // 2]


def _shown(content: bytes) -> str:
    text = content.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return "\n".join(f"    {line}" for line in text[:1500].splitlines()).strip()

"""What can be wrong with an expression: `CompileError` before it runs, `EvaluationError` while it does."""

from __future__ import annotations

import bisect

from steelyard.frozen import frozen

_MOST: int = 100


class EvaluationError(Exception):
    """Absorbed by `&&`, `||` and the macros built on them when the other side decides; otherwise it fails the rule."""

    @property
    def text(self) -> str:
        return str(self.args[0])


class CostExceeded(Exception):
    """The expression took too many steps; nothing absorbs this."""


@frozen
class Problem:
    position: int
    text: str


class CompileError(Exception):
    def __init__(self, source: str, problems: list[Problem]) -> None:
        super().__init__(describe(source, problems))


def describe(source: str, problems: list[Problem]) -> str:
    """Every problem with its place in the source, drawn under the line as cel-go does."""
    starts = [0, *(index + 1 for index, char in enumerate(source) if char == "\n")]
    lines = source.split("\n")
    shown: list[str] = []
    ordered = sorted(problems, key=lambda problem: problem.position)
    for problem in ordered[:_MOST]:
        line = bisect.bisect_right(starts, problem.position) - 1
        column = problem.position - starts[line]
        snippet = lines[line].replace("\t", " ")
        dots = "".join("." if ord(char) < 0x80 else "\uff0e" for char in snippet[:column])
        mark = "\uff3e" if len(snippet) > column and ord(snippet[column]) >= 0x80 else "^"
        shown.append(f"ERROR: <input>:{line + 1}:{column + 1}: {problem.text}\n | {snippet}\n | {dots}{mark}")
    if len(problems) > _MOST:
        shown.append(f"{len(problems) - _MOST} more errors were truncated")
    return "\n".join(shown)

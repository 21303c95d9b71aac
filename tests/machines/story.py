"""A story in stages: each prints its seconds, and a story that was broken off goes on with the stage that it was in.

A stage says for itself whether what it wants is there already, so that going on is the same as beginning. What stages
have to remember of each other is in `Memory`.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Stage:
    letter: str
    title: str
    run: Callable[[], str]
    """Returns what there is to say of it, in a few words."""


class Memory:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, name: str) -> Any:
        return self._held.get(name)

    def set(self, name: str, value: object) -> None:
        self._held[name] = value
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps(self._held, indent=1))
        unfinished.replace(self._path)

    @property
    def done(self) -> dict[str, float]:
        """Seconds by the letter of the stage."""
        return cast("dict[str, float]", self._held.get("done", {}))

    def finish(self, letter: str, seconds: float) -> None:
        self.set("done", {**self.done, letter: seconds})


def tell(stages: Sequence[Stage], memory: Memory, *, only: Sequence[str] = ()) -> tuple[int, int]:
    """How many passed, and how many failed; the first that fails ends the story."""
    passed = 0
    for stage in stages:
        if only and stage.letter not in only:
            continue
        if not only and stage.letter in memory.done:
            print(f"({stage.letter}) {stage.title}: done before, in {memory.done[stage.letter]:.0f} s", flush=True)
            passed += 1
            continue
        print(f"({stage.letter}) {stage.title} ...", flush=True)
        started = time.monotonic()
        try:
            said = stage.run()
        except Exception:
            print(traceback.format_exc(), flush=True)
            print(f"({stage.letter}) FAILED after {time.monotonic() - started:.0f} s", flush=True)
            return passed, 1
        took = time.monotonic() - started
        memory.finish(stage.letter, took)
        passed += 1
        print(f"({stage.letter}) {took:.0f} s: {said}", flush=True)
    return passed, 0


def until(question: Callable[[], Any], what: str, *, seconds: float, pause: float = 2.0) -> Any:
    """The first answer that is true. What fails on the way, such as an API that is not there yet, is no answer."""
    deadline = time.monotonic() + seconds
    while True:
        problem = ""
        try:
            if answer := question():
                return answer
        except AssertionError as error:
            problem = f"; last: {error}"
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}{problem}"
        time.sleep(pause)

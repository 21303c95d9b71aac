"""What an attack is: a name, who does it, knobs that can be turned, and what is sent.

`Attack` is declared, `Aim` is one with its knobs set, and `Assault` is one under way against a server.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tests.soak.hostile.field import Field, Identity
from tests.soak.hostile.wire import Ended, Line, Silence

ANSWER_SECONDS: Final = 60.0
_OPENED_AT_ONCE: Final = 32
BOUND: Final = "count"
"""The knob for how many are sent at most, which nobody needs to turn."""

Value = int | str


class Who(StrEnum):
    STRANGER = "stranger"
    USER = "user"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Knob:
    """A number between two others, or one of several words."""

    default: Value
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()

    def turned(self, value: Value, random_: random.Random) -> Value:
        """Somewhere else, more often near than far."""
        if self.words:
            return random_.choice(self.words)
        assert isinstance(value, int)
        factor = random_.choice((0.25, 0.5, 0.8, 1.25, 2.0, 4.0))
        return max(self.low, min(self.high, int(value * factor) + random_.randrange(-1, 2)))


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    who: Who
    work: Callable[[Assault], Awaitable[None]]
    knobs: Mapping[str, Knob]
    prepare: Callable[[Assault], Awaitable[None]] | None = None
    """What must be there first. It takes as long as it takes, and is measured as well."""
    needs_few_descriptors: bool = False
    """It is about connections: measured on a server that may have few."""


@dataclass(frozen=True, slots=True)
class Aim:
    """Attacks that are made at the same time, with their knobs as they are set."""

    attacks: tuple[tuple[Attack, Mapping[str, Value]], ...]

    @staticmethod
    def of(attack: Attack, **values: Value) -> Aim:
        return Aim(((attack, {name: knob.default for name, knob in attack.knobs.items()} | values),))

    @property
    def title(self) -> str:
        return " + ".join(attack.name for attack, _ in self.attacks)

    @property
    def who(self) -> str:
        return ", ".join(dict.fromkeys(attack.who.value for attack, _ in self.attacks))

    @property
    def needs_few_descriptors(self) -> bool:
        return any(attack.needs_few_descriptors for attack, _ in self.attacks)

    def line(self) -> str:
        """What `--replay` takes."""
        return json.dumps([{"attack": attack.name, **values} for attack, values in self.attacks])

    @staticmethod
    def read(line: str, known: Mapping[str, Attack]) -> Aim:
        attacks: list[tuple[Attack, Mapping[str, Value]]] = []
        for each in json.loads(line):
            attack = known[each.pop("attack")]
            attacks.append((attack, {name: knob.default for name, knob in attack.knobs.items()} | each))
        return Aim(tuple(attacks))


@dataclass(slots=True)
class Assault:
    """One attack under way."""

    field_: Field
    who: Who
    values: Mapping[str, Value]
    tag: str
    """In the names of what is made, so that nothing is made twice."""
    seconds: float
    answers: Counter[str] = field(default_factory=Counter[str])
    kept: list[Line | Silence] = field(default_factory=list[Line | Silence])
    deadline: float = 0.0
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    """From `prepare` to `work`."""

    @property
    def identity(self) -> Identity:
        return {Who.STRANGER: self.field_.stranger, Who.USER: self.field_.user, Who.TENANT: self.field_.tenant}[
            self.who
        ]

    def number(self, knob: str) -> int:
        value = self.values[knob]
        assert isinstance(value, int)
        return value

    def word(self, knob: str) -> str:
        return str(self.values[knob])

    async def keep_sending(self, request: Callable[[int], bytes]) -> None:
        """From `at_once` connections, one request after the other, until time is up or BOUND are sent."""
        numbers = iter(range(self.number(BOUND)))

        async def one() -> None:
            line: Line | None = None
            for number in numbers:
                if time.monotonic() > self.deadline:
                    break
                if line is None or line.is_closed:
                    line = await self.open()
                    if line is None:
                        continue
                await self.ask(line, request(number))
            if line is not None:
                line.close()

        await asyncio.gather(*(one() for _ in range(self.number("at_once"))))

    async def ask(self, line: Line, request: bytes) -> bytes:
        """The beginning of the answer, which is counted; nothing where there was none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await line.ask(request)
        except Ended:
            self.answers["cut off"] += 1
            return b""
        except TimeoutError:
            self.answers["no answer"] += 1
            line.close()
            return b""
        self.answers[str(answer.code)] += 1
        return answer.body

    async def open(self) -> Line | None:
        try:
            line = await Line.open(self.identity)
        except Ended:
            self.answers["no connection"] += 1
            return None
        self.kept.append(line)
        return line

    async def open_many(self, count: int, make: Callable[[], Awaitable[object]]) -> None:
        """At most a few at the same time: handshakes cost the attacker as much as the server."""
        places = asyncio.Semaphore(_OPENED_AT_ONCE)

        async def one() -> None:
            async with places:
                await make()

        await asyncio.gather(*(one() for _ in range(count)))

    async def until_over(self) -> None:
        await asyncio.sleep(max(0.0, self.deadline - time.monotonic()))

    def close(self) -> None:
        for each in self.kept:
            each.close()
        self.kept.clear()

    def answered(self) -> str:
        return ", ".join(f"{count} x {what}" for what, count in self.answers.most_common(4)) or "nothing"


def numbers(at_once: int = 2, count: int = 10_000) -> dict[str, Knob]:
    """The knobs of whatever is sent again and again."""
    return {"at_once": Knob(at_once, 1, 32), BOUND: Knob(count, 1, 100_000)}

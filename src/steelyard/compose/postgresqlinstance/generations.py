"""Things that are replaced by another of their kind, which is made before the old one goes: logins and copies.

    active 1                                    something asks for another, or it is due
    active 1, next 2                            2 is made; 1 is in use
    active 2, former [1 until 10:00]            2 is complete: it is in use from this write on, and 1 still works
    active 2                                    10:00 has come

Which one is in use stands in the claim's status. Every step follows from what is recorded and from what is there, so it
can be repeated after a kill at any write: the next number is always the active one and one, what is made for it has
names that follow from the number, and nothing old goes before what is new has been recorded as in use. A second wish
while a next one is being made is granted after it. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final

from steelyard.compose.postgresqlinstance.naming import MOST_GENERATIONS
from steelyard.frozen import frozen
from steelyard.kube import moments, objects
from steelyard.kube.objects import Object

MOST_FORMER: Final = 3
"""While so many old ones still work, no further one is begun: who asks all the time gets no more than these."""


@frozen
class Old:
    generation: int
    until: str


@frozen
class Generations:
    active: int
    """0 while there is none."""
    since: str = ""
    begun: str = ""
    """When the newest was begun: a schedule goes by it."""
    next: int = 0
    """0 while none is being made."""
    trigger: str = ""
    """The last wish that was acted on."""
    former: tuple[Old, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        """The one in use first, then the next, then the old ones."""
        found = (self.active, self.next, *(each.generation for each in self.former))
        return tuple(dict.fromkeys(each for each in found if each))

    def to_json(self, every: float | None) -> Object:
        due = self.due(every)
        return {
            "generation": self.active,
            **({"since": self.since} if self.since else {}),
            **({"begunAt": self.begun} if self.begun else {}),
            **({"next": self.next} if self.next else {}),
            **({"trigger": self.trigger} if self.trigger else {}),
            **({"dueAt": moments.text(due)} if due is not None else {}),
            **(
                {"former": [{"generation": each.generation, "until": each.until} for each in self.former]}
                if self.former
                else {}
            ),
        }

    def due(self, every: float | None) -> float | None:
        return moments.seconds(self.begun) + every if every and self.begun else None


def recorded(status: Object) -> Generations | None:
    """None where nothing is recorded, or nothing that can be read: who may write a status can have put it there."""
    try:
        former = tuple(
            Old(_number(each["generation"]), _moment(each["until"]))
            for each in map(objects.mapping, objects.sequence(status.get("former")))
        )
        return Generations(
            active=_number(status["generation"]),
            since=_moment(status.get("since")),
            begun=_moment(status.get("begunAt")),
            next=_number(status.get("next") or 0),
            trigger=str(status.get("trigger") or ""),
            former=former[: MOST_FORMER + 1],
        )
    except (KeyError, ValueError, TypeError):
        return None


def recovered(found: Collection[int], in_use: int | None, *, first: int, now: str, overlap: float) -> Generations:
    """What is likely where the status was lost, as after a restore from Git: what is there, and which of it is in the
    connection Secret. Nothing of it goes at once."""
    if not found:
        return Generations(active=first, begun=now, since=now if first else "", next=0 if first else 1)
    newest = max(found)
    active = in_use if in_use is not None and in_use in found else (newest if first else 0)
    until = moments.text(moments.seconds(now) + overlap) if now else ""
    return Generations(
        active=active,
        since=now,
        begun=now,
        next=newest if newest != active else 0,
        former=tuple(Old(each, until) for each in sorted(found) if each not in (active, newest) and until),
    )


def advanced(here: Generations, *, wish: str, every: float | None, now: str, has_failed: bool = False) -> Generations:
    """With the next one begun where it is wished for or due. `has_failed`: what is being made will come to nothing."""
    due = here.due(every)
    is_due = due is not None and bool(now) and moments.seconds(now) >= due
    is_wished = bool(wish) and wish != here.trigger
    is_free = not here.next or has_failed
    if not (is_due or is_wished) or not is_free or len(here.former) >= MOST_FORMER:
        return here
    newest = here.next or here.active
    return dataclasses.replace(
        here,
        next=newest % MOST_GENERATIONS + 1,
        begun=now or here.begun,
        trigger=wish if is_wished else here.trigger,
    )


def switched(here: Generations, *, now: str, overlap: float) -> Generations:
    """With the next one in use."""
    if not here.next or not now:
        return here
    until = moments.text(moments.seconds(now) + overlap)
    before = (Old(here.active, until),) if here.active else ()
    return dataclasses.replace(here, active=here.next, next=0, since=now, former=(*before, *here.former))


def without_past(here: Generations, now: str) -> Generations:
    if not now:
        return here
    left = tuple(each for each in here.former if moments.seconds(each.until) > moments.seconds(now))
    return here if len(left) == len(here.former) else dataclasses.replace(here, former=left)


def look_again(here: Generations, every: float | None, now: str) -> float:
    """In how many seconds something is due; 0 for never."""
    if not now:
        return 0.0
    moment = moments.seconds(now)
    ahead = [moments.seconds(each.until) - moment for each in here.former]
    due = here.due(every)
    ahead += [due - moment] if due is not None and not here.next else []
    return max(1.0, min(ahead)) if ahead else 0.0


def _number(value: object) -> int:
    number = int(str(value))
    if not 0 <= number <= MOST_GENERATIONS:
        raise ValueError(number)
    return number


def _moment(value: object) -> str:
    text = str(value or "")
    if text:
        moments.seconds(text)
    return text

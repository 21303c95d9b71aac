"""One claim at a time where two might take the same, such as a range of addresses out of a pool.

Which range is free follows from the clusters that are there. Crossplane composes many claims at once, and applies what
it was answered a moment later; so whoever takes something has the turn until its Cluster is seen, and others are told
to come again. The turn is kept in memory: with pools of ranges one replica of the function runs, not several.

A Cluster may never come to be, as with a quota. So a turn ends in time however often its holder asks, and who has used
one up for nothing comes after those who wait and have not.
"""

from __future__ import annotations

from typing import Final, TypeVar

from steelyard.crossplane.composing import Answer, Result

_LONGEST_SECONDS: Final = 60.0
"""After that whoever has it is taken to have given up."""
_SEEN_SECONDS: Final = 3.0
"""How long a turn lasts when its Cluster is there: others may still be answered from what was looked up before."""
_PATIENCE_SECONDS: Final = 120.0
"""Who has not asked for so long waits no more. Crossplane asks again within a minute."""
_MOST: Final = 1000
"""Claims that are remembered."""
_NOBODY: Final = "nobody"
"""Has the turn of one whose Cluster is there, until others have seen it too. No claim is called so."""
_T = TypeVar("_T")


class Turns:
    def __init__(self) -> None:
        self._holder = ""
        self._until = 0.0
        self._waiting: dict[str, float] = {}
        """Who was refused, and when; the one that asked longest ago first."""
        self._used_up: dict[str, int] = {}
        """How many turns a claim has had for nothing."""

    def kept(self, answer: Answer, now: float) -> Answer:
        """The answer, or one that says to come again. `now` is in seconds, from whatever moment."""
        subject = answer.subject
        if not answer.takes_turns:
            if not answer.is_fatal:
                self._seen(subject, now)
            return answer
        if now >= self._until:
            self._end()
        if self._holder == subject:
            return answer
        self._waiting.pop(subject, None)
        if self._holder or self._comes_after_others(subject, now):
            _remember(self._waiting, subject, now)
            wait = Result(
                "fatal",
                "AnothersTurn",
                "another claim is taking a range of addresses, and two must not take the same; this is tried again by "
                "itself",
            )
            return Answer(selectors=answer.selectors, results=[wait], subject=subject)
        self._holder, self._until = subject, now + _LONGEST_SECONDS
        return answer

    def _seen(self, subject: str, now: float) -> None:
        """What it has taken is there, or it takes nothing."""
        self._waiting.pop(subject, None)
        self._used_up.pop(subject, None)
        if self._holder == subject:
            self._holder = _NOBODY
            self._until = min(self._until, now + _SEEN_SECONDS)

    def _end(self) -> None:
        if self._holder not in ("", _NOBODY):
            _remember(self._used_up, self._holder, self._used_up.pop(self._holder, 0) + 1)
        self._holder = ""

    def _comes_after_others(self, subject: str, now: float) -> bool:
        own = self._used_up.get(subject, 0)
        self._waiting = {each: asked for each, asked in self._waiting.items() if now - asked < _PATIENCE_SECONDS}
        return any(self._used_up.get(each, 0) < own for each in self._waiting)


def _remember(known: dict[str, _T], subject: str, value: _T) -> None:
    known[subject] = value
    while len(known) > _MOST:
        del known[next(iter(known))]

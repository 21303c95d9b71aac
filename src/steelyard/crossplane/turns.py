"""One claim at a time where two might take the same, such as a range of addresses out of a pool.

Which range is free follows from the clusters that are there. Crossplane composes many claims at once, and applies what
it was answered a moment later; so whoever takes something has the turn until its Cluster is seen, and others are told
to come again. The turn is kept in memory: with pools of ranges one replica of the function runs, not several.
"""

from __future__ import annotations

from typing import Final

from steelyard.crossplane.composing import Answer, Result

_LONGEST_SECONDS: Final = 60.0
"""After that whoever has it is taken to have given up."""
_SEEN_SECONDS: Final = 3.0
"""How long a turn lasts when its Cluster is there: others may still be answered from what was looked up before."""


class Turns:
    def __init__(self) -> None:
        self._holder = ""
        self._until = 0.0

    def kept(self, answer: Answer, now: float) -> Answer:
        """The answer, or one that says to come again. `now` is in seconds, from whatever moment."""
        is_another = self._holder != answer.subject and now < self._until
        if not answer.takes_turns:
            if self._holder == answer.subject and not answer.is_fatal:
                self._until = min(self._until, now + _SEEN_SECONDS)
            return answer
        if is_another:
            wait = Result(
                "fatal",
                "AnothersTurn",
                f"{self._holder} is taking a range of addresses, and two must not take the same; this is tried again "
                "by itself",
            )
            return Answer(selectors=answer.selectors, results=[wait], subject=answer.subject)
        self._holder, self._until = answer.subject, now + _LONGEST_SECONDS
        return answer

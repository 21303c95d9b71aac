"""What became of one part: how much of it passed, and the story if something did not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    what: str
    passed: int
    failed: int
    besides: str = ""
    story: str = ""

    @property
    def is_good(self) -> bool:
        """A part that ran nothing is not."""
        return self.passed > 0 and self.failed == 0

    def __str__(self) -> str:
        return f"{self.what}: {self.passed} passed, {self.failed} failed" + (
            f"; {self.besides}" if self.besides else ""
        )

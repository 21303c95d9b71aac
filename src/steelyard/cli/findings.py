"""One thing that `steelyard doctor` found: how bad, about what, and what to do."""

from __future__ import annotations

from typing import Literal

from steelyard.frozen import frozen


@frozen
class Finding:
    level: Literal["ok", "note", "FAIL"]
    subject: str
    text: str

    @property
    def is_failure(self) -> bool:
        return self.level == "FAIL"

    def __str__(self) -> str:
        return f"{self.level:<5} {self.subject}: {self.text}"

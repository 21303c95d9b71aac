"""Why a machine or cluster cannot be as its spec asks. The reason is a condition's, the message says what to do."""

from __future__ import annotations


class Refused(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

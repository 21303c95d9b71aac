"""Commands that a message offers: spelled so that, copied as they stand, they reach the server that was asked."""

from __future__ import annotations

from steelyard.frozen import frozen


@frozen
class Hints:
    """The flags that lead to the same server, each with a space before it; empty where none are needed."""

    flags: str = ""
    kubectl_flags: str = ""

    def steelyard(self, words: str) -> str:
        return f"steelyard {words}{self.flags}"

    def kubectl(self, words: str) -> str:
        return f"kubectl {words}{self.kubectl_flags}"


PLAIN = Hints()

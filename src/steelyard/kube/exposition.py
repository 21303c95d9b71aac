"""What the process tells Prometheus: everybody counts in plain numbers, and makes families of them when scraped.

prometheus_client is loaded with the first scrape. It brings a web server along, and its own counters and histograms
cost a multiple of what they count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Registrar(Protocol):
    """A registry of prometheus_client, or one that becomes it."""

    def register(self, collector: Any) -> None:
        """`collector` has a `collect()`, which gives its families."""
        ...


class Registry:
    """That of the process, before it is loaded."""

    def __init__(self) -> None:
        self._waiting: list[Any] = []

    def register(self, collector: Any) -> None:
        self._waiting.append(collector)

    def complete(self) -> CollectorRegistry:
        """prometheus_client's own, with everything that was registered here."""
        from prometheus_client import REGISTRY

        while self._waiting:
            REGISTRY.register(self._waiting.pop(0))
        return REGISTRY


PROCESS: Final = Registry()


def text(registry: Registrar = PROCESS) -> bytes:
    """As `/metrics` shows it."""
    from prometheus_client import generate_latest

    return generate_latest(registry.complete() if isinstance(registry, Registry) else cast(Any, registry))

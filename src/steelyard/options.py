"""What a platform is started with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard import parts
from steelyard.api import infrastructures
from steelyard.frozen import frozen
from steelyard.installation import opening
from steelyard.installation.datadir import DataDir
from steelyard.installation.opening import OpenStore
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.clock import Clock
from steelyard.providers.toolkit.provider import Provider
from steelyard.settings import Chosen, Platform

if TYPE_CHECKING:
    from steelyard.compose.offering import Offering


@frozen
class Options:
    data_dir: DataDir
    host: str
    port: int
    platform: Platform
    platform_file: Path | None = None
    """Where the settings are from; None where they are the defaults, or made otherwise."""
    accepts_platform_change: bool = False
    """Settings that change claims are refused, unless somebody has agreed to that."""
    tell: Callable[[str], None] = lambda _: None
    """Gets what whoever starts the platform should know."""
    open_store: OpenStore = opening.durably
    """How databases are opened; tests pass one that kills the process at a chosen write, or that skips fsync."""
    clock: Clock = clocks.SYSTEM
    """What certificates go by; tests pass one that they move."""
    offering: Offering | None = None
    """The kinds of claims, and what machines are made of; None for what this version has."""
    providers: tuple[Provider, ...] = parts.PROVIDERS
    """What brings the objects about that claims are made of."""
    without: frozenset[str] = frozenset()
    """Names of `parts` that are not started: somebody else brings their objects about."""

    @property
    def chosen(self) -> Chosen:
        return Chosen(self.platform, self.platform_file)

    @property
    def offered(self) -> Offering:
        """Large: to be asked for only where a claim, a definition or a policy is to be made of it."""
        from steelyard.compose import offering

        return self.offering or offering.STANDARD

    @property
    def infrastructure_names(self) -> tuple[str, ...]:
        return infrastructures.OFFERED if self.offering is None else self.offering.infrastructure_names

    @property
    def runs(self) -> frozenset[str]:
        """Names of the parts that are started."""
        return frozenset(parts.names(self.providers)) - self.without

    @property
    def worlds(self) -> dict[Path, str]:
        """The databases of the providers, and what each stands for."""
        return {
            self.data_dir.provider_database(database): provider.stands_for
            for provider in self.providers
            for database in provider.databases
        }

"""Commands that are loaded when they are asked for: whoever calls one does not wait until all others have been read.

A command is named by its place in this package, as `applying.apply`. The names of all of them are known without it, so
that one that is misspelt is told what is like it; help and completion ask for every command, and load them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import typer
import typer.core

from steelyard import collecting
from steelyard.cli import reach

Add: TypeAlias = Callable[[typer.Typer, str], None]
"""Loads a command and adds it under a name."""


def command(place: str, *, cls: str = "") -> Add:
    """`cls` is the place of the command's class, where it has one of its own."""
    return lambda to, name: _add(to, name, _at(place), cls)


def reaching(place: str, *, cls: str = "") -> Add:
    """A command that talks to a platform: it has the options that say which."""
    return lambda to, name: _add(to, name, reach.options(_at(place)), cls)


def group(place: str, *arguments: object) -> Add:
    """Commands under a common name, as the function there makes them of the arguments."""
    return lambda to, name: to.add_typer(_at(place)(*arguments), name=name)


def of(verbs: Mapping[str, Add]) -> type[typer.core.TyperGroup]:
    """What a program is made of that has these commands, in this order."""

    class Verbs(typer.core.TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = cast("Any", Loading(verbs))

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

    return Verbs


class Loading(Mapping[str, Any]):
    """Commands by name, each made when it is taken."""

    def __init__(self, verbs: Mapping[str, Add]) -> None:
        self._verbs = verbs
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        add = self._verbs[name]
        if name not in self._made:
            alone = typer.Typer(rich_markup_mode=None)
            with collecting.paused():
                add(alone, name)
            self._made[name] = typer.main.get_group(alone).commands[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)

    def __contains__(self, name: object) -> bool:
        return name in self._verbs


def _add(to: typer.Typer, name: str, function: Callable[..., None], cls: str) -> None:
    to.command(name, cls=_at(cls) if cls else None)(function)


def _at(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)

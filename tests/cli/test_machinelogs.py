"""`steelyard logs machine`: whose console, and nothing but text of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from steelyard import app, settings
from steelyard.api.resources import KVM_MACHINES
from steelyard.cli import machinelogs, reach
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.reach import Given
from steelyard.cli.session import Session
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES
from steelyard.providers.toolkit.provider import Ground, Provider, Started
from tests.cli.terminal import Terminal
from tests.harness import INSTANT


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("[\x1b[0;32m  OK  \x1b[0m] Started\r\n", "[  OK  ] Started\n"),
        ("\x1b]0;title\x07plain", "plain"),
        ("\x1b]52;c;ZXZpbA==\x1b\\paste", "paste"),
        ("\x1bcreset\x9b31m", "creset31m"),
        ("tab\tand\nline", "tab\tand\nline"),
    ],
    ids=["colours", "a title", "the clipboard", "eight bits", "layout stays"],
)
def test_a_guest_cannot_tell_the_terminal_what_to_do(raw: str, text: str) -> None:
    assert machinelogs.readable(raw) == text


@contextlib.asynccontextmanager
async def platform(folder: Path) -> AsyncGenerator[DataDir]:
    """One whose machines have consoles that nobody writes to but this test."""
    kept: Mapping[str, bytes] = {"shop-1": b"first\nsecond\n\x1b[1mthird\x1b[0m\n"}

    async def read(namespace: str, name: str, *, last: int) -> bytes:
        if name not in kept:
            raise errors.ServiceUnavailable(f"host x cannot be asked for the console of {name}")
        return kept[name][-last:]

    async def start(_: Ground) -> Started:
        return Started(consoles={KVM_MACHINES: read})

    where = DataDir(folder / "data")
    options = app.Options(where, "127.0.0.1", 0, settings.parse(INSTANT), providers=(Provider("kvm", start),))
    async with app.started(options) as running:
        for namespace in ("team-a", "team-b"):
            await running.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        for namespace, name in (("team-a", "shop-1"), ("team-a", "twice"), ("team-b", "twice")):
            await running.client.create(KVM_MACHINES, machine(namespace, name))
        yield where


def machine(namespace: str, name: str) -> Object:
    return {
        "apiVersion": KVM_MACHINES.api_version,
        "kind": "KVMMachine",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"resources": {"cpu": 1, "memory": "1Gi", "disk": "10Gi"}},
    }


async def test_the_end_of_a_console_is_printed_and_what_is_wrong_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with platform(tmp_path) as where:
        server = reach.choose(Given(data_dir=where.root))
        client = HttpClient(server.connection)

        async def logs(name: str, namespace: str = "", tail: int = -1) -> str:
            await machinelogs.show(Session(client, server), name, namespace, tail)
            return capsys.readouterr().out

        assert await logs("shop-1") == "first\nsecond\nthird\n"
        assert await logs("shop-1", "team-a", 1) == "third\n"
        with pytest.raises(CommandError, match="in each of team-a, team-b; say which one with -n"):
            await logs("twice")
        with pytest.raises(CommandError, match="there is no machine none"):
            await logs("none")
        with pytest.raises(errors.ServiceUnavailable, match="cannot be asked for the console of twice"):
            await logs("twice", "team-b")
        await client.close()


@pytest.mark.parametrize(
    "words", [("machine",), ("cluster", "shop"), ("machine", "shop-1", "--follow")], ids=lambda words: " ".join(words)
)
def test_what_is_not_understood_is_told_how_it_is_written(idle: Terminal, words: tuple[str, ...]) -> None:
    done = idle.quick("logs", *words)

    assert done.code == Exit.USAGE
    assert "steelyard logs machine NAME" in done.err

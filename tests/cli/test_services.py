"""What the platform runs besides clusters, told to its administrator and nobody else; and what it is told to leave."""

from __future__ import annotations

import dataclasses

import pytest

from steelyard.cli import services
from steelyard.cli.exits import Exit
from steelyard.cli.services import Service
from steelyard.kube import errors
from steelyard.kube.client.http import HttpClient
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess


def test_status_and_doctor_tell_of_servers_that_nobody_has_needed_yet(terminal: Terminal) -> None:
    told = "PostgreSQL (postgres-provider): not needed yet, the first database starts it"
    assert f"service: {told}" in terminal.ok("status").splitlines()
    doctor = terminal.run("doctor")
    assert "not needed yet, the first database starts it" in doctor.out


def test_a_service_that_is_down_is_a_failure_of_the_doctor() -> None:
    down, running = services.findings([Service("redis", "down", "no program; install it"), Service("x", "running", "")])
    assert (down.is_failure, down.subject, "install it" in str(down)) == (True, "redis", True)
    assert not running.is_failure


async def test_only_administrators_are_told(shared: PlatformProcess) -> None:
    administrator = shared.client()
    stranger = HttpClient(dataclasses.replace(administrator.connection, token=""))
    try:
        assert "PostgreSQL (postgres-provider)" in {each.name for each in await services.gather(administrator)}
        with pytest.raises(errors.Forbidden):
            await stranger.request("GET", "/steelyard.dev/v1/services")
        assert await services.gather(stranger) == ()
    finally:
        await administrator.close()
        await stranger.close()


def test_a_part_that_there_is_not_cannot_be_left_out(idle: Terminal) -> None:
    done = idle.run("up", "--port", "0", "--without", "postgers")
    assert done.code == Exit.USAGE
    assert "--without postgers: there is no such part; there are claims, lifecycle, simulated" in done.err

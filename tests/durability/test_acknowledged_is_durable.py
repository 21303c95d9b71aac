"""Acknowledged means durable, seen from outside the process: in the order of its system calls."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.durability import trace
from tests.durability.server import TOKEN
from tests.harness import ROOT

pytestmark = [
    pytest.mark.strace,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

_CALLS = "trace=fdatasync,fsync,pwrite64,pwritev,write,writev,sendto,sendmsg"
CONNECTIONS = 8
CREATES_EACH = 6


async def test_no_success_is_told_before_its_revision_is_on_disk(tmp_path: Path) -> None:
    verdict = await _traced(tmp_path)
    assert verdict.told >= CONNECTIONS * CREATES_EACH
    assert verdict.too_early == []


async def test_the_check_notices_a_server_that_does_not_sync(tmp_path: Path) -> None:
    verdict = await _traced(tmp_path, "--no-fsync")
    assert verdict.told >= CONNECTIONS * CREATES_EACH
    assert len(verdict.too_early) >= CONNECTIONS * CREATES_EACH


async def _traced(tmp_path: Path, *flags: str) -> trace.Verdict:
    database, output = tmp_path / "traced.db", tmp_path / "trace"
    command = ["strace", "-f", "-yy", "-s", "100000", "-e", _CALLS, "-o", str(output)]
    command += [sys.executable, "-m", "tests.durability.server", str(database), *flags]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        await _create_many(port)
        os.killpg(process.pid, signal.SIGTERM)
        async with asyncio.timeout(30):
            await process.wait()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    with output.open(errors="replace") as lines:
        return trace.judge(lines, database.name)


async def _create_many(port: int) -> None:
    url = f"http://127.0.0.1:{port}/api/v1/namespaces/default/configmaps"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:

        async def create(connection: int) -> None:
            for number in range(CREATES_EACH):
                body = {"metadata": {"name": f"c-{connection}-{number}"}, "data": {"key": "value"}}
                async with session.post(url, json=body) as response:
                    assert response.status == 201, await response.text()

        await asyncio.gather(*(create(connection) for connection in range(CONNECTIONS)))

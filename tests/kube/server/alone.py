"""The API over TLS in a process of its own, so that what it takes of memory and time can be told; prints its port.

python -m tests.kube.server.alone DATABASE    # until its standard input ends
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.server import serving


async def serve(database: Path) -> None:
    store = await Store.open(database, fsync=False)
    api = await Api.start(store)
    async with serving.served(api) as site:
        print(site.listener.port, flush=True)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
        await ended.wait()
    await api.close()
    await store.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))

"""The API server on a store, over plain HTTP so that a trace can read what is answered; prints its port.

python -m tests.durability.server DATABASE [--no-fsync]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

import uvloop

from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.rights import authn
from steelyard.kube.server.transport import http
from steelyard.kube.store.store import Store

TOKEN = "for-this-test-only"


async def serve(database: Path, *, fsync: bool) -> None:
    store = await Store.open(database, fsync=fsync)
    api = await Api.start(store)
    users = {authn.hash_token(TOKEN): User("tester", (SYSTEM_MASTERS,))}
    listener = await http.listen(api, "127.0.0.1", 0, tls=None, authenticator=authn.TokensAndCertificates(users))
    print(listener.port, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await listener.close()
    await api.close()
    await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("database", type=Path)
    parser.add_argument("--no-fsync", action="store_true")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(given.database, fsync=not given.no_fsync))

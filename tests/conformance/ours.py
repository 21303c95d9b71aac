"""Our server, in a process of its own, as the corpus meets it: one API over HTTPS with the same users as upstream."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import uvloop

from steelyard.kube import pki
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.rights import accounttokens
from steelyard.kube.server.rights.authn import TokensAndCertificates, hash_token
from steelyard.kube.server.transport import http
from steelyard.kube.server.transport.application import Backend
from steelyard.kube.server.transport.tls import ServingTls
from steelyard.kube.store.store import Store
from tests.conformance import keys, replay
from tests.conformance.replay import Server
from tests.harness import ROOT

EVENT_TTL: Final = datetime.timedelta(seconds=20)
"""Long enough for every sequence but the one that waits for it."""
TOKENS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "admin": ("token-of-admin", (SYSTEM_MASTERS,)),
    "jane": ("token-of-jane", ()),
    "joe": ("token-of-joe", ("builders",)),
}


def known_tokens() -> dict[str, str]:
    """By user. Nobody has the token of `stranger`, and `anonymous` has none."""
    return {**{user: token for user, (token, _) in TOKENS.items()}, "stranger": "token-of-stranger"}


@contextlib.asynccontextmanager
async def serving(
    folder: Path, wrap: Callable[[Backend], Backend] | None = None, shared: Path | None = None
) -> AsyncGenerator[Server]:
    """In this process. `wrap` is put between the API and its transport; `shared` holds the keys of `keys.write`."""
    if shared is None:
        shared = folder / "keys"
        keys.write(shared)
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.new_authority("conformance", now=now)
    certificate = pki.issue_serving(authority, "ours", ["127.0.0.1", "localhost"], now=now)
    users = {hash_token(token): User(user, groups, uid=user) for user, (token, groups) in TOKENS.items()}
    store = await Store.open(folder / "ours.db", fsync=False)
    try:
        api = await Api.start(store, event_ttl=EVENT_TTL)
        try:
            await api.access.activate()
            api.access.know(TokensAndCertificates(users))
            api.access.signer = accounttokens.Signer((shared / keys.ACCOUNTS).read_bytes, keys.ISSUER)
            api.access.address = keys.ADDRESS
            listener = await http.listen(
                wrap(api) if wrap is not None else api,
                "127.0.0.1",
                0,
                tls=ServingTls(certificate, (shared / keys.AUTHORITY).read_bytes()),
                authenticator=api.access,
                authorizer=api.access.rbac,
            )
            url = f"https://127.0.0.1:{listener.port}"
            await api.own_service.publish("127.0.0.1", listener.port)
            try:
                yield Server("ours", url, known_tokens(), keys.contexts(shared))
            finally:
                await listener.close()
        finally:
            await api.close()
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def running(folder: Path, shared: Path) -> AsyncGenerator[Server]:
    """In a process of its own, which is ended whatever happens."""
    with (folder / "ours.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.conformance.ours", str(folder), str(shared)),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        if not url:
            raise RuntimeError(f"our server did not start:\n{(folder / 'ours.log').read_text()[-4000:]}")
        server = Server("ours", url, known_tokens(), keys.contexts(shared))
        async with replay.session() as session:
            await replay.prepare(session, server)
        yield server
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 20)


async def _main(folder: Path, shared: Path) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with serving(folder, shared=shared) as server:
        print(server.url, flush=True)
        await ended.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(Path(sys.argv[1]), Path(sys.argv[2])))

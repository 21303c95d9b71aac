"""External Secrets' own controller on the embedded API, in the place of our provider, and back: the hand-over.

What ours put into Vault is not written again by upstream's, nor the other way round; each goes on where the other
stopped. A real OpenBao is behind both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from pathlib import Path
from typing import Final

from steelyard import app, settings
from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, EXTERNAL_SECRETS, PUSH_SECRETS
from steelyard.compose import managed
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import conditions
from tests.conformance import upstream
from tests.ecosystem import openbao
from tests.ecosystem.baoserver import BaoServer
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, built

VERSION: Final = "0.20.4"
_NAME: Final = f"External Secrets {VERSION}, its controller, in the place of our provider"
_FLAGS: Final = (
    "--enable-cluster-external-secret-reconciler=false",
    "--enable-cluster-push-secret-reconciler=false",
    "--enable-generator-state=false",
    "--store-requeue-interval=5s",
)


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    program = built("external-secrets")[0]
    bao = BaoServer(built("bao")[0], openbao.fresh(folder / "bao"))
    passed: list[str] = []
    try:
        bao.set_up()
        asyncio.run(openbao.collect(_story(folder, program, bao), passed))
    except (AssertionError, OSError, subprocess.SubprocessError, errors.ApiError) as error:
        log = folder / "external-secrets.log"
        end = log.read_text()[-3000:] if log.exists() else ""
        story = f"after: {'; '.join(passed)}\n{type(error).__name__}: {error}\nthe end of the controller's log:\n{end}"
        return Outcome(_NAME, len(passed), 1, story=story)
    finally:
        bao.stop()
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


async def _story(folder: Path, program: str, bao: BaoServer) -> AsyncIterator[str]:
    text = openbao.platform_file(folder, bao)
    openbao.let_platform_in(bao, settings.parse(text))
    paths = ("apps/dev/shop", "shared-services/kafka", "shared-services/redis")
    name = objects.name(_push())
    async with _platform(folder, text) as client:
        await client.create(SECRETS, openbao.secret("shop", username="app", password="p@ss word/1"))
        await client.create(PUSH_SECRETS, _push())
        await openbao.ready(client, PUSH_SECRETS, name, openbao.HOME)
        await openbao.until(lambda: openbao.now(bao.secret(paths[2])), lambda it: it is not None)
        await client.create(EXTERNAL_SECRETS, _pull())
        await openbao.ready(client, EXTERNAL_SECRETS, "pull", openbao.HOME)
        made = await client.get(SECRETS, "pulled", openbao.HOME)
    versions = {path: bao.version(path) for path in paths}
    contents = {path: bao.secret(path) for path in paths}
    yield "ours has pushed and pulled"

    async with _platform(folder, text, without="vault") as client:
        with _controller(program, folder):
            await _validated(client)
            await openbao.set_values(client, "shop", password="by upstream")
            await openbao.touch(client, PUSH_SECRETS, name, openbao.HOME)
            await openbao.until(
                lambda: openbao.now(bao.secret("apps/dev/shop") or {}),
                lambda it: "by+upstream" in it["url"],
                seconds=120,
            )
            assert bao.version("apps/dev/shop") == versions["apps/dev/shop"] + 1, "it was written more than once"
            for path in paths[1:]:
                assert (bao.version(path), bao.secret(path)) == (versions[path], contents[path]), path
            yield "upstream's takes the same pushes over: a changed value is put there once, nothing else is written"
            external = await client.get(EXTERNAL_SECRETS, "pull", openbao.HOME)
            await openbao.until(
                lambda: client.get(EXTERNAL_SECRETS, "pull", openbao.HOME),
                lambda it: (
                    conditions.is_true(it, "Ready")
                    and objects.resource_version(it) != objects.resource_version(external)
                ),
                seconds=120,
            )
            after = await client.get(SECRETS, "pulled", openbao.HOME)
            assert (objects.uid(after), after["data"]) == (objects.uid(made), made["data"])
            yield "it takes the ExternalSecret over, and its Secret stays the same"
            await client.delete(PUSH_SECRETS, await openbao.push_of(client, paths[2]), openbao.HOME)
            await openbao.until(lambda: openbao.now(bao.secret(paths[2]) is None), bool, seconds=120)
            yield "what ours put there goes when upstream's is told to delete it"

    versions = {path: bao.version(path) for path in paths[:2]}
    async with _platform(folder, text) as client:
        await openbao.ready(client, PUSH_SECRETS, name, openbao.HOME)
        await openbao.until(lambda: openbao.now(bao.secret(paths[2])), lambda it: it is not None)
        await asyncio.sleep(3)
        assert {path: bao.version(path) for path in paths[:2]} == versions, "written again though nothing differed"
        await openbao.set_values(client, "shop", password="by ours again")
        await openbao.until(lambda: openbao.now(bao.secret("apps/dev/shop") or {}), lambda it: "by+ours" in it["url"])
        await client.delete(PUSH_SECRETS, name, openbao.HOME)
        await client.delete(EXTERNAL_SECRETS, "pull", openbao.HOME)
        await openbao.gone(client, PUSH_SECRETS, name, openbao.HOME)
        await openbao.gone(client, EXTERNAL_SECRETS, "pull", openbao.HOME)
        await openbao.gone(client, SECRETS, "pulled", openbao.HOME)
        assert bao.secret("apps/dev/shop") is None
        yield "ours takes them back, writes nothing again, and deletes what upstream's wrote"


async def _validated(client: Client) -> None:
    """By upstream's: it says so in an event, whatever the condition says since before."""
    await openbao.until(
        lambda: client.get(CLUSTER_SECRET_STORES, "vault-backend"),
        lambda it: conditions.is_true(it, "Ready"),
        seconds=120,
    )


@contextlib.asynccontextmanager
async def _platform(folder: Path, file: str, without: str = "") -> AsyncGenerator[Client]:
    options = app.Options(
        DataDir(folder / "data"),
        "127.0.0.1",
        0,
        settings.parse(INSTANT + file),
        without=frozenset(filter(None, [without])),
    )
    async with app.started(options) as running:
        yield running.client


@contextlib.contextmanager
def _controller(program: str, folder: Path) -> Generator[None]:
    ports = upstream.free_ports(2)
    addresses = [f"--metrics-addr=127.0.0.1:{ports[0]}", f"--live-addr=127.0.0.1:{ports[1]}"]
    with (folder / "external-secrets.log").open("ab") as log:
        process = subprocess.Popen(
            [program, *_FLAGS, *addresses],
            env={"HOME": str(folder), "PATH": os.environ["PATH"], "KUBECONFIG": str(folder / "data" / "kubeconfig")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _push() -> Object:
    template = {"url": "postgresql://{{ .username | urlquery }}:{{ .password | urlquery }}@db"}
    return json.loads(json.dumps(managed.push(openbao.Pushing(), "shop", "secret/apps/dev/shop", template).object))


def _pull() -> Object:
    spec: Object = {
        "refreshInterval": "10s",
        "secretStoreRef": {"name": "vault-backend", "kind": "ClusterSecretStore"},
        "target": {"name": "pulled", "creationPolicy": "Owner"},
        "data": [{"secretKey": "KAFKA_BROKERS", "remoteRef": {"key": "shared-services/kafka", "property": "brokers"}}],
    }
    return openbao.new(EXTERNAL_SECRETS, "pull", openbao.HOME, spec)

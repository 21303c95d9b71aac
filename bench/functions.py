"""The function that Crossplane calls: requests a second at 1 and 8 connections, and what of each is ours.

A request is that of a cluster with four machines that is ready, or of a database, with everything that was looked up:
what Crossplane sends again and again. The server is a process of its own with certificates on both sides, as Crossplane
has it; the load comes from this one. Where the time goes is measured without the network, on the same messages.
"""

from __future__ import annotations

import asyncio
import datetime
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import crossplane.function.proto.v1.run_function_pb2 as fn
import grpc
import grpc.aio

from steelyard.api import xrd
from steelyard.compose.offering import STANDARD
from steelyard.crossplane import composing, protocol
from steelyard.crossplane.inputs import Inputs
from steelyard.crossplane.serving import SERVICE, Function
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.crossplane.test_composing import cluster, complete, database
from tests.crossplane.world import World
from tests.ecosystem import crossplane_programs, crossplane_render

CONNECTIONS: Final = (1, 8)
_ROUNDS: Final = 200


async def measure(folder: Path, requests: int) -> None:
    crossplane_programs.write_certificates(folder)
    serving, calling = folder / "serving", folder / "calling"
    credentials = grpc.ssl_channel_credentials(
        *((calling / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
    )
    messages = {"a cluster that is ready": _of_cluster(), "a database that is ready": _of_database()}
    with crossplane_render.function("--tls-certs-dir", str(serving)) as address:
        for what, message in messages.items():
            rates: list[str] = []
            for connections in CONNECTIONS:
                seconds = await _load(address, credentials, message, connections, requests)
                rates.append(f"{requests / seconds:.0f}/s at {connections}")
            size = f"{len(message.SerializeToString()) / 1024:.0f} KB"
            print(f"function, {what} ({size}), with TLS: {', '.join(rates)} connections", flush=True)
            print(f"  {_where_it_goes(message)}", flush=True)


async def _load(
    address: str, credentials: grpc.ChannelCredentials, message: fn.RunFunctionRequest, connections: int, requests: int
) -> float:
    channels = [
        # Each a connection of its own, which gRPC would share otherwise.
        grpc.aio.secure_channel(address, credentials, options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(connections)
    ]
    # What the load generator does itself is left out as far as it can be: no message is made anew, or read.
    body = message.SerializeToString()
    methods: list[Any] = [channel.unary_unary(f"/{SERVICE}/RunFunction") for channel in channels]
    try:
        await asyncio.gather(*(method(body) for method in methods))
        left = iter(range(requests))

        async def work(method: Callable[[bytes], Awaitable[bytes]]) -> None:
            for _ in left:
                await method(body)

        started = time.perf_counter()
        await asyncio.gather(*(work(method) for method in methods))
        return time.perf_counter() - started
    finally:
        for channel in channels:
            await channel.close()


def _where_it_goes(message: fn.RunFunctionRequest) -> str:
    """Medians of processor time, in milliseconds: reading and writing objects, and composing, which is all ours."""
    inputs = Inputs(Platform(), STANDARD.infrastructure_names)
    function = Function(Platform(), STANDARD, lambda: datetime.datetime.now(datetime.UTC))
    body = message.SerializeToString()
    given = protocol.read_input(message, inputs)
    asked = protocol.asked(message, "2026-01-01T00:00:00Z")
    answer = composing.answer(asked, STANDARD, given.platform)
    whole = _median(lambda: function.run(fn.RunFunctionRequest.FromString(body)).SerializeToString())
    parts = {
        "settings": lambda: protocol.read_input(message, inputs),
        "reading objects": lambda: protocol.asked(message, ""),
        "composing": lambda: composing.answer(asked, STANDARD, given.platform),
        "writing objects": lambda: protocol.response(message, answer),
    }
    told = ", ".join(f"{name} {_median(part):.2f}" for name, part in parts.items())
    return f"ours of each: {whole:.2f} ms ({told})"


def _median(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(_ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times) * 1000


def _of_cluster() -> fn.RunFunctionRequest:
    world = World(cluster(workerReplicas=3), Platform(), xrd.NAMESPACED)
    world.reconcile()
    for number in range(4):
        world.store(_machine(f"shop-{number}"))
    complete(world)
    world.reconcile()
    world.reconcile()
    return world.request


def _machine(name: str) -> Object:
    """As much of one as Cluster API writes."""
    conditions = [
        {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_ in ("Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady", "NodeReady")
    ]
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"cluster.x-k8s.io/cluster-name": "shop"}},
        "spec": {"clusterName": "shop", "version": "v1.34.4", "providerID": f"simulated://{name}"},
        "status": {"phase": "Running", "nodeRef": {"name": name}, "conditions": conditions},
    }


def _of_database() -> fn.RunFunctionRequest:
    world = World(database(), Platform(), xrd.NAMESPACED)
    world.settle()
    return world.request

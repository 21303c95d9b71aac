"""The function as a server: what Crossplane calls, over gRPC with certificates on both sides.

Each request is answered from itself alone. It holds no data, asks no API server, and several may run beside each other
(see `turns.py` for the one exception).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import crossplane.function.proto.v1.run_function_pb2 as fn
import grpc
import grpc.aio

from steelyard.compose.offering import Offering
from steelyard.compose.refusing import Refused
from steelyard.crossplane import composing, protocol
from steelyard.crossplane.composing import Answer, Result
from steelyard.crossplane.inputs import Inputs
from steelyard.crossplane.turns import Turns
from steelyard.frozen import frozen
from steelyard.settings import Platform

LARGEST_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes. As much as Crossplane's side takes; a composite with its parts is a hundredth of it."""
SERVICE: Final = "apiextensions.fn.proto.v1.FunctionRunnerService"
_BETA_SERVICE: Final = "apiextensions.fn.proto.v1beta1.FunctionRunnerService"
_GRACE_SECONDS: Final = 5.0
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_AUTHORITY: Final = "ca.crt"


class CannotServe(Exception):
    """The message says why, and what to do."""


@frozen
class Served:
    platform: Platform
    offering: Offering
    address: str
    """`host:port`; port 0 for any that is free."""
    certificates: Path | None = None
    """A folder with tls.crt, tls.key and ca.crt, as Crossplane mounts it; None to serve without TLS."""


class Function:
    def __init__(self, platform: Platform, offering: Offering, clock: Callable[[], datetime.datetime]) -> None:
        self._inputs = Inputs(platform, offering.infrastructure_names)
        self._offering = offering
        self._clock = clock
        self._turns = Turns()

    def run(self, request: fn.RunFunctionRequest, *, is_beta: bool = False) -> fn.RunFunctionResponse:
        try:
            given = protocol.read_input(request, self._inputs)
        except Refused as refused:
            failure = Result("fatal", refused.reason, refused.message)
            return protocol.response(request, Answer(results=[failure]))
        now = self._clock().astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        answer = composing.answer(protocol.asked(request, now), self._offering, given.platform)
        answer = self._turns.kept(answer, time.monotonic())
        return protocol.response(request, answer, extra_resources=is_beta or given.extra_resources)

    def handler(self, *, is_beta: bool = False) -> Any:
        """The service as gRPC registers it. Crossplane before v1.17 calls it by another name, with the same messages,
        and knows what is required by its older name only."""

        async def run(request: fn.RunFunctionRequest, _context: object) -> fn.RunFunctionResponse:
            return self.run(request, is_beta=is_beta)

        method = grpc.unary_unary_rpc_method_handler(
            run,
            request_deserializer=fn.RunFunctionRequest.FromString,
            response_serializer=fn.RunFunctionResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(_BETA_SERVICE if is_beta else SERVICE, {"RunFunction": method})


async def serve(served: Served, tell: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT; a second one ends it at once. `tell` is given the address once it answers.

    Raises `CannotServe`.
    """
    function = Function(served.platform, served.offering, lambda: datetime.datetime.now(datetime.UTC))
    limits = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=limits)
    server.add_generic_rpc_handlers((function.handler(), function.handler(is_beta=True)))
    port = _listen(server, served)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, _ended(stopping, loop, each))
    await server.start()
    host = served.address.rpartition(":")[0]
    tell(f"{host}:{port}")
    try:
        await stopping.wait()
    finally:
        await server.stop(_GRACE_SECONDS)


def _ended(stopping: asyncio.Event, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> Callable[[], None]:
    def end() -> None:
        stopping.set()
        with contextlib.suppress(ValueError):
            loop.remove_signal_handler(number)

    return end


def _listen(server: Any, served: Served) -> int:
    try:
        if served.certificates is None:
            return int(server.add_insecure_port(served.address))
        return int(server.add_secure_port(served.address, _credentials(served.certificates)))
    except RuntimeError as error:
        raise CannotServe(
            f"cannot listen on {served.address}: it is taken, or no address of this machine; name another with "
            "--address"
        ) from error


def _credentials(folder: Path) -> Any:
    """Who calls must have a certificate of the same authority: nobody else can have claims composed."""
    found: dict[str, bytes] = {}
    for name in (_CERTIFICATE, _KEY, _AUTHORITY):
        try:
            found[name] = (folder / name).read_bytes()
        except OSError as error:
            raise CannotServe(
                f"{folder / name}: {error.strerror or error}; --tls-certs-dir names a folder with {_CERTIFICATE}, "
                f"{_KEY} and {_AUTHORITY}, as Crossplane mounts it at /tls/server. To try the function out without "
                "TLS, start it with --insecure"
            ) from error
    return grpc.ssl_server_credentials(
        [(found[_KEY], found[_CERTIFICATE])], root_certificates=found[_AUTHORITY], require_client_auth=True
    )

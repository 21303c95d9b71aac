"""The function as a server: whom it answers, and how it begins and ends."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import signal
from collections.abc import Generator
from pathlib import Path

import crossplane.function.proto.v1.run_function_pb2 as fn
import grpc
import pytest

from steelyard.crossplane import inputs, structs
from steelyard.crossplane.serving import SERVICE
from steelyard.kube import pki
from steelyard.settings import Platform
from tests import forked
from tests.crossplane.test_composing import cluster
from tests.crossplane.world import composite
from tests.harness import ROOT

NOW = datetime.datetime.now(datetime.UTC)


@contextlib.contextmanager
def serving(*arguments: str) -> Generator[tuple[str, forked.Piped]]:
    """Where it listens. It is ended, whatever happens."""
    asked = ["function", "--address", "127.0.0.1:0", *arguments]
    process = forked.piped(asked, cwd=ROOT, environment=os.environ)
    try:
        line = process.stderr.readline()
        found = re.search(r"at (127\.0\.0\.1:\d+)", line)
        assert found is not None, line + process.stderr.read()
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def request() -> fn.RunFunctionRequest:
    made = fn.RunFunctionRequest()
    made.meta.tag = "one"
    structs.write(made.observed.composite.resource, composite(cluster(), "namespaced"))
    structs.write(made.input, inputs.document(Platform()))
    return made


def call(channel: grpc.Channel, service: str = SERVICE) -> fn.RunFunctionResponse:
    method = channel.unary_unary(
        f"/{service}/RunFunction",
        request_serializer=fn.RunFunctionRequest.SerializeToString,
        response_deserializer=fn.RunFunctionResponse.FromString,
    )
    return method(request(), timeout=20)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """As Crossplane mounts them."""
    authority = pki.new_authority("crossplane", now=NOW)
    own = pki.issue_serving(authority, "function", ["127.0.0.1"], now=NOW)
    caller = pki.issue_client(authority, "crossplane", now=NOW)
    for name, content in (
        ("ca.crt", authority.certificate),
        ("tls.crt", own.certificate),
        ("tls.key", own.key),
        ("client.crt", caller.certificate),
        ("client.key", caller.key),
    ):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def credentials(folder: Path, authority: bytes | None = None) -> grpc.ChannelCredentials:
    """With what the caller shows: its own certificate, or one of another authority, or none."""
    if authority is not None:
        return grpc.ssl_channel_credentials((folder / "ca.crt").read_bytes())
    return grpc.ssl_channel_credentials(
        (folder / "ca.crt").read_bytes(), (folder / "client.key").read_bytes(), (folder / "client.crt").read_bytes()
    )


def test_who_has_a_certificate_of_the_authority_is_answered_and_nobody_else(certificates: Path) -> None:
    with serving("--tls-certs-dir", str(certificates)) as (address, _):
        with grpc.secure_channel(address, credentials(certificates)) as channel:
            answer = call(channel)
        assert "cluster" in answer.desired.resources
        assert answer.meta.tag == "one"

        with (
            grpc.secure_channel(address, credentials(certificates, b"")) as channel,
            pytest.raises(grpc.RpcError) as refused,
        ):
            call(channel)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

        other = pki.new_authority("crossplane", now=NOW)
        stranger = pki.issue_client(other, "crossplane", now=NOW)
        forged = grpc.ssl_channel_credentials(
            (certificates / "ca.crt").read_bytes(), stranger.key, stranger.certificate
        )
        with grpc.secure_channel(address, forged) as channel, pytest.raises(grpc.RpcError) as refused:
            call(channel)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            call(channel)


def test_without_tls_anybody_is_answered_and_the_older_protocol_asks_by_its_older_name() -> None:
    with serving("--insecure") as (address, _), grpc.insecure_channel(address) as channel:
        answer = call(channel)
        older = call(channel, "apiextensions.fn.proto.v1beta1.FunctionRunnerService")

    assert set(answer.requirements.resources) >= {"machines", "kubeconfig"}
    assert not answer.requirements.extra_resources
    assert set(older.requirements.extra_resources) == set(answer.requirements.resources)
    assert not older.requirements.resources


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order(number: signal.Signals) -> None:
    with serving("--insecure") as (_, process):
        process.send_signal(number)
        assert process.wait(60) == 0


def failing(*arguments: str, **environment: str) -> tuple[int, str]:
    done = forked.run(["function", *arguments], environment={**os.environ, **environment})
    return done.returncode, done.stderr


def test_it_does_not_serve_without_certificates_unless_told_to() -> None:
    code, said = failing()
    assert code == 2
    assert "--tls-certs-dir, or say --insecure" in said


def test_missing_certificates_are_told_with_what_is_to_be_there(tmp_path: Path) -> None:
    code, said = failing("--address", "127.0.0.1:0", TLS_SERVER_CERTS_DIR=str(tmp_path))
    assert code == 1
    assert "tls.crt: No such file" in said
    assert "as Crossplane mounts it" in said


def test_an_address_that_is_taken_is_told() -> None:
    with serving("--insecure") as (address, _):
        code, said = failing("--insecure", "--address", address)
    assert code == 1
    assert f"cannot listen on {address}" in said

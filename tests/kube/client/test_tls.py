from __future__ import annotations

import datetime
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from steelyard.kube import errors, pki
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.http import HttpClient
from steelyard.kube.resources import NODES
from tests.kube.client.servers import client_of, serving

NOW = datetime.datetime.now(datetime.UTC)


class TestTls:
    authority = pki.new_authority("test", now=NOW)
    serving_pair = pki.issue_serving(authority, "kubernetes", ["kubernetes", "127.0.0.1"], now=NOW)
    client_pair = pki.issue_client(authority, "alice", ["team-a"], now=NOW)

    def context(self, tmp_path: Path) -> ssl.SSLContext:
        (tmp_path / "pair.pem").write_bytes(self.serving_pair.certificate + self.serving_pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "pair.pem")
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    @asynccontextmanager
    async def serving(self, tmp_path: Path) -> AsyncGenerator[str]:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            assert request.transport
            certificate: dict[str, Any] = request.transport.get_extra_info("peercert") or {}
            names: list[str] = [
                value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"
            ]
            return web.json_response({"user": names[0] if names else ""})

        async with serving(handler, self.context(tmp_path)) as server:
            yield server

    async def test_client_certificate_comes_from_memory(self, tmp_path: Path) -> None:
        async with self.serving(tmp_path) as server:
            config = kubeconfig.build(
                "t",
                server,
                certificate_authority=self.authority.certificate,
                client_certificate=self.client_pair.certificate,
                client_key=self.client_pair.key,
            )
            client = HttpClient.from_kubeconfig(config.to_yaml())
            assert await client.get(NODES, "a") == {"user": "alice"}
            await client.close()

    async def test_server_of_another_authority_is_not_trusted(self, tmp_path: Path) -> None:
        other = pki.new_authority("other", now=NOW)
        async with (
            self.serving(tmp_path) as server,
            client_of(server, certificate_authority=other.certificate) as client,
        ):
            with pytest.raises(errors.ServiceUnavailable, match=r"the TLS connection .* failed"):
                await client.get(NODES, "a")

    async def test_verification_can_be_switched_off(self, tmp_path: Path) -> None:
        async with self.serving(tmp_path) as server, client_of(server, insecure_skip_tls_verify=True) as client:
            assert await client.get(NODES, "a") == {"user": ""}

    async def test_server_name_can_differ_from_the_address(self, tmp_path: Path) -> None:
        ca = self.authority.certificate
        async with self.serving(tmp_path) as server:
            async with client_of(server, certificate_authority=ca, tls_server_name="kubernetes") as client:
                assert await client.get(NODES, "a") == {"user": ""}
            async with client_of(server, certificate_authority=ca, tls_server_name="elsewhere") as client:
                with pytest.raises(errors.ServiceUnavailable, match=r"the TLS connection .* failed"):
                    await client.get(NODES, "a")

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"certificate_authority": b"nonsense"}, "certificate authority cannot be used"),
            ({"client_certificate": client_pair.certificate}, "no client key"),
            ({"client_certificate": client_pair.certificate, "client_key": b"x"}, "certificate or key cannot be used"),
        ],
    )
    def test_unusable_credentials_are_told_at_once(self, fields: dict[str, bytes], message: str) -> None:
        with pytest.raises(kubeconfig.InvalidKubeconfig, match=message):
            HttpClient(kubeconfig.Connection("https://a", **fields))  # type: ignore[arg-type]

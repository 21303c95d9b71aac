"""A real OpenBao server on loopback, with TLS, that keeps what it has on disk: it can be sealed, killed and started
again. One key unseals it."""

from __future__ import annotations

import datetime
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from steelyard.kube import pki
from tests.conformance import upstream

_HOST: Final = "127.0.0.1"
_START_SECONDS: Final = 30.0


class BaoServer:
    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = upstream.free_ports(1)[0]
        self.address = f"https://{_HOST}:{self.port}"
        self.log = folder / "log"
        self.authority = folder / "authority.pem"
        self.token = ""
        self._key = ""

    def set_up(self) -> None:
        now = datetime.datetime.now(datetime.UTC)
        authority = pki.new_authority("bao authority", now=now)
        serving = pki.issue_serving(authority, "bao", [_HOST], now=now)
        self.authority.write_bytes(authority.certificate)
        (self._folder / "serving.pem").write_bytes(serving.certificate)
        (self._folder / "serving.key").write_bytes(serving.key)
        listener = {
            "address": f"{_HOST}:{self.port}",
            "tls_cert_file": str(self._folder / "serving.pem"),
            "tls_key_file": str(self._folder / "serving.key"),
        }
        config = {
            "storage": {"file": {"path": str(self._folder / "storage")}},
            "listener": {"tcp": listener},
            "api_addr": self.address,
        }
        (self._folder / "config.json").write_text(json.dumps(config))
        self.start()
        made = self.call("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
        self._key, self.token = made["keys"][0], made["root_token"]
        self.unseal()

    def start(self) -> None:
        """Sealed, as it always starts."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "server", "-config", str(self._folder / "config.json")],
                env={"HOME": str(self._folder), "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.call("GET", "sys/seal-status")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"OpenBao did not start: {self.log.read_text()[-2000:]}") from None
                time.sleep(0.05)
            else:
                return

    def unseal(self) -> None:
        self.call("PUT", "sys/unseal", {"key": self._key})
        deadline = time.monotonic() + _START_SECONDS
        while self.status("GET", "sys/health") != 200:
            assert time.monotonic() < deadline, "OpenBao does not become active"
            time.sleep(0.05)

    def seal(self) -> None:
        self.call("PUT", "sys/seal")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(20)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """The answer; raises HTTPError, which is an OSError, for what is none."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Vault-Token": self.token if token is None else token}
        request = urllib.request.Request(f"{self.address}/v1/{path}", data, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            error.msg = f"{path}: {error.read().decode(errors='replace')[:1000]}"
            raise
        return json.loads(text) if text else {}

    def status(self, method: str, path: str, body: Any = None, token: str | None = None) -> int:
        try:
            self.call(method, path, body, token)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def secret(self, path: str, mount: str = "secret") -> dict[str, Any] | None:
        """What is at the path; None where nothing is."""
        try:
            return dict(self.call("GET", f"{mount}/data/{path}")["data"]["data"])
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None

    def version(self, path: str, mount: str = "secret") -> int:
        return int(self.call("GET", f"{mount}/metadata/{path}")["data"]["current_version"])

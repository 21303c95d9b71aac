"""Real etcd members on loopback, each at an address of its own, with certificates as kubeadm makes them.

    with etcds.running(folder, authority, 3) as members:      127.a.b.1:2379, 127.a.b.2:2379, 127.a.b.3:2379
        members[0].kill()

They are ended, whatever happens. Skips where etcd has not been built (`tools/upstream/build.py etcd`).
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import random
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from tests.harness import found

NOW = datetime.datetime.now(datetime.UTC)
_READY_SECONDS = 20.0


class Etcd:
    """One member, on a machine of the same name."""

    def __init__(self, folder: Path, name: str, address: str, authority: KeyPair) -> None:
        self.folder = folder / name
        self.name = name
        self.address = address
        self.process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir()
        hosts = [name, "localhost", address, "127.0.0.1"]
        for kind, pair in (("own", _pair(authority, name, hosts)), ("ca", authority)):
            (self.folder / f"{kind}.crt").write_bytes(pair.certificate)
            (self.folder / f"{kind}.key").write_bytes(pair.key)

    @property
    def peer_url(self) -> str:
        return f"https://{self.address}:2380"

    def start(self, program: str, cluster: Sequence[Etcd], *, is_strict: bool) -> None:
        own = self.folder
        flags = [
            f"--name={self.name}",
            f"--data-dir={own / 'data'}",
            f"--listen-client-urls=https://{self.address}:2379",
            f"--advertise-client-urls=https://{self.address}:2379",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={','.join(f'{each.name}={each.peer_url}' for each in cluster)}",
            f"--strict-reconfig-check={'true' if is_strict else 'false'}",
            "--client-cert-auth=true",
            "--peer-client-cert-auth=true",
            *(f"--{kind}trusted-ca-file={own / 'ca.crt'}" for kind in ("", "peer-")),
            *(f"--{kind}cert-file={own / 'own.crt'}" for kind in ("", "peer-")),
            *(f"--{kind}key-file={own / 'own.key'}" for kind in ("", "peer-")),
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        with (own / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, *flags], cwd=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def machine(self, **status: object) -> Object:
        """As Cluster API has it."""
        addresses = [{"type": "Hostname", "address": self.name}, {"type": "InternalIP", "address": self.address}]
        return {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": self.name, "namespace": "team", "uid": self.name, "creationTimestamp": self.name},
            "status": {"nodeRef": {"name": self.name}, "addresses": addresses, **status},
        }


@contextlib.contextmanager
def running(folder: Path, authority: KeyPair, count: int, *, is_strict: bool = False) -> Generator[list[Etcd]]:
    """`is_strict` is how kubeadm leaves it: etcd itself refuses changes as well, and does so for its first seconds."""
    program = found("etcd")
    if not program:
        pytest.skip("etcd is not built: run tools/upstream/build.py etcd")
    net = f"127.{random.randrange(128, 254)}.{random.randrange(1, 254)}"
    members = [Etcd(folder, f"cp-{number}", f"{net}.{number}", authority) for number in range(1, count + 1)]
    try:
        for each in members:
            each.start(program, members, is_strict=is_strict)
        _await(members)
        yield members
    finally:
        for each in members:
            each.kill()


def _await(members: Sequence[Etcd]) -> None:
    """Until all listen, which they do once the cluster has a leader."""
    deadline = time.monotonic() + _READY_SECONDS
    for each in members:
        while True:
            try:
                socket.create_connection((each.address, 2379), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise AssertionError((each.folder / "log").read_text()[-3000:]) from None
                time.sleep(0.02)


def _pair(authority: KeyPair, name: str, hosts: Sequence[str]) -> KeyPair:
    """Good for both ends of a connection, as kubeadm's are: etcd's gateway shows the server's own to the server."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signing = serialization.load_pem_private_key(authority.key, password=None)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(each) if each[0].isalpha() else x509.IPAddress(ipaddress.ip_address(each)) for each in hosts]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(minutes=5))
        .not_valid_after(NOW + datetime.timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signing, hashes.SHA256())  # type: ignore[arg-type]
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)

"""The platform's own authority, serving certificate and administrator, made on the first start and kept.

The administrator's token is written into the kubeconfig and nowhere else; the server knows its SHA-256 hash. A
serving certificate of whose life less than a third is left, or that was made for another address, is made anew: at
start, and while the platform runs.
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from pathlib import Path

from steelyard import durable
from steelyard.datadir import DataDir
from steelyard.kube import pki
from steelyard.kube.client import kubeconfig
from steelyard.kube.pki import KeyPair
from steelyard.kube.server import authn, renewal
from steelyard.kube.server.call import SYSTEM_MASTERS, User

ADMINISTRATOR = "steelyard-admin"


def authority(data_dir: DataDir, *, now: datetime.datetime) -> KeyPair:
    existing = _load(data_dir.pki, "ca")
    if existing is not None:
        return existing
    made = pki.new_authority("steelyard-ca", now=now)
    _save(data_dir.pki, "ca", made)
    return made


def serving(data_dir: DataDir, signer: KeyPair, hosts: list[str], *, now: datetime.datetime) -> KeyPair:
    existing = _load(data_dir.pki, "server")
    if existing is not None and _serves(existing, hosts, now):
        return existing
    made = pki.issue_serving(signer, "steelyard", hosts, now=now)
    _save(data_dir.pki, "server", made)
    return made


def service_account_key(data_dir: DataDir) -> bytes:
    """What tokens of service accounts are signed with."""
    path = data_dir.pki / "sa.key"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        made = pki.new_private_key()
        durable.write(path, made)
        return made


def administrator_token(data_dir: DataDir) -> str:
    """The administrator's token: that of an earlier start, else a new one."""
    return _token_in(data_dir.kubeconfig) or secrets.token_urlsafe(32)


def users(administrator_token: str) -> Mapping[str, User]:
    """Who may call with a token, by the token's hash."""
    return {authn.hash_token(administrator_token): User(ADMINISTRATOR, (SYSTEM_MASTERS,))}


def write_kubeconfig(data_dir: DataDir, url: str, authority_certificate: bytes, token: str) -> None:
    config = kubeconfig.build(
        "steelyard", url, certificate_authority=authority_certificate, user=ADMINISTRATOR, token=token
    )
    kubeconfig.write(data_dir.kubeconfig, config)


def _token_in(path: Path) -> str:
    """The token of an earlier start; empty where the file is absent or no longer ours."""
    try:
        return kubeconfig.load(path).resolve().token
    except kubeconfig.InvalidKubeconfig:
        return ""


def _serves(pair: KeyPair, hosts: list[str], now: datetime.datetime) -> bool:
    was_left_half_written = bool(pki.problem_of(pair))
    if was_left_half_written or pki.expiry_of(pair.certificate) - now <= renewal.RENEW_BEFORE:
        return False
    return set(hosts) <= set(pki.hosts_of(pair.certificate))


def _load(directory: Path, name: str) -> KeyPair | None:
    try:
        return KeyPair((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes())
    except FileNotFoundError:
        return None


def _save(directory: Path, name: str, pair: KeyPair) -> None:
    """The key first: a certificate without its key would be taken for complete after a crash."""
    durable.write(directory / f"{name}.key", pair.key)
    durable.write(directory / f"{name}.crt", pair.certificate)

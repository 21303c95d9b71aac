"""The platform's own authority, serving certificate and administrator, made on the first start and kept.

The administrator's token is written into the kubeconfig and nowhere else; the server knows its SHA-256 hash. A
serving certificate of whose life less than a third is left, that was made for another address or that cannot be read is
made anew, at start and while the platform runs: clients trust the authority, not it. Nothing else is ever made anew
unasked, since somebody relies on it.
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.installation import datadir
from steelyard.installation.datadir import DataDir
from steelyard.kube import pki
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.kubeconfig import InvalidKubeconfig
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.rights import authn
from steelyard.kube.server.transport import renewal

ADMINISTRATOR: Final = "steelyard-admin"


class Unusable(Exception):
    """A file is damaged, cannot be read, or lacks its other half. The message names it and the ways on."""


def authority(data_dir: DataDir, *, now: datetime.datetime) -> KeyPair:
    """That of earlier starts, else a new one. Raises Unusable."""
    try:
        existing = _load(data_dir.pki, "ca")
        if existing is None and _has_issued(data_dir):
            raise pki.Unusable("certificate", "is missing")
        if existing is not None:
            pki.check(existing)
            return existing
    except pki.Unusable as error:
        # A first start that was killed between the two files leaves a key that nothing has been signed with.
        if error.part == "key" or _has_issued(data_dir):
            path = _path(data_dir.pki, "ca", error.part)
            raise Unusable(f"{path} {error}: the platform's authority.\n{ways_back(data_dir)}") from None
    made = pki.new_authority("steelyard-ca", now=now)
    _save(data_dir.pki, "ca", made)
    return made


def serving(data_dir: DataDir, signer: KeyPair, hosts: list[str], *, now: datetime.datetime) -> KeyPair:
    try:
        existing = _load(data_dir.pki, "server")
        if existing is not None:
            pki.check(existing)
            if _serves(existing, hosts, now) and pki.is_issued_by(existing.certificate, signer.certificate):
                return existing
    except pki.Unusable:
        pass
    made = pki.issue_serving(signer, "steelyard", hosts, now=now)
    _save(data_dir.pki, "server", made)
    return made


def service_account_key(data_dir: DataDir) -> bytes:
    """What tokens of service accounts are signed with. Raises Unusable."""
    path = data_dir.service_account_key
    key = _read(path)
    try:
        if key is None and data_dir.remembered.exists():
            raise pki.Unusable("key", "is missing")
        if key is None:
            key = pki.new_private_key()
            durable.write(path, key)
        pki.check_key(key)
    except pki.Unusable as error:
        raise Unusable(f"{path} {error}: it signs the tokens of service accounts.\n{ways_back(data_dir)}") from None
    return key


def administrator_token(data_dir: DataDir) -> str:
    """The administrator's token: that of an earlier start, a new one where there is no kubeconfig. Raises Unusable."""
    path = data_dir.kubeconfig
    if not path.exists():
        return secrets.token_urlsafe(32)
    try:
        token = kubeconfig.load(path).resolve().token
    except InvalidKubeconfig as error:
        problem = str(error).removeprefix(f"{path}: ")
    else:
        if token:
            return token
        problem = "holds no token"
    raise Unusable(
        f"{path}, the administrator's, cannot be used: {problem}. Bring it back from a copy or a backup. Or move it "
        "away: the next start then writes one with a new token, and copies of the old one no longer work"
    )


def users(administrator_token: str) -> Mapping[str, User]:
    """Who may call with a token, by the token's hash."""
    return {authn.hash_token(administrator_token): User(ADMINISTRATOR, (SYSTEM_MASTERS,))}


def write_kubeconfig(data_dir: DataDir, url: str, authority_certificate: bytes, token: str) -> None:
    """Not where it says that already: a start on a full disk must not need space for it."""
    config = kubeconfig.build(
        "steelyard", url, certificate_authority=authority_certificate, user=ADMINISTRATOR, token=token
    )
    try:
        is_known = kubeconfig.load(data_dir.kubeconfig) == config
    except InvalidKubeconfig:
        is_known = False
    if not is_known:
        kubeconfig.write(data_dir.kubeconfig, config)


@frozen
class Renewed:
    what: list[str]
    """In words."""
    kept: Path
    """Where what was there before is now."""


def renew_authority(data_dir: DataDir, *, now: datetime.datetime) -> Renewed:
    """A new authority in place of the old one, and a kubeconfig that trusts it. Raises AlreadyRunning.

    The key of service accounts' tokens and the administrator's token stay where they can be used.
    """
    hold = datadir.Hold(data_dir)
    try:
        kept = data_dir.aside(now)
        _keep(data_dir, kept)
        return Renewed(_renew_authority(data_dir, now), kept)
    finally:
        hold.release()


def _keep(data_dir: DataDir, kept: Path) -> None:
    """Copies what is about to be replaced; durable before the first of it is."""
    pki_kept = kept / data_dir.pki.name
    pki_kept.mkdir(mode=0o700)
    for file in data_dir.pki.iterdir():
        durable.write(pki_kept / file.name, file.read_bytes())
    if data_dir.kubeconfig.exists():
        durable.write(kept / data_dir.kubeconfig.name, data_dir.kubeconfig.read_bytes())
    durable.sync_directory(kept)
    durable.sync_directory(kept.parent)


def _renew_authority(data_dir: DataDir, now: datetime.datetime) -> list[str]:
    renewed = ["the certificate authority"]
    made = pki.new_authority("steelyard-ca", now=now)
    _save(data_dir.pki, "ca", made)
    for name in ("server.crt", "server.key"):
        durable.remove(data_dir.pki / name)
    try:
        pki.check_key(data_dir.service_account_key.read_bytes())
    except (pki.Unusable, FileNotFoundError):
        durable.write(data_dir.service_account_key, pki.new_private_key())
        renewed.append("the key that signs tokens of service accounts")
    try:
        connection = kubeconfig.load(data_dir.kubeconfig).resolve()
        token, url = connection.token, connection.server
    except InvalidKubeconfig:
        token = url = ""
    if not token:
        renewed.append("the administrator's token")
    # The port is known when the platform serves; until then the old address is as good as any.
    write_kubeconfig(data_dir, url or "https://127.0.0.1:7443", made.certificate, token or secrets.token_urlsafe(32))
    return renewed


def ways_back(data_dir: DataDir) -> str:
    return (
        "Nothing was changed. Bring the file back from a copy, or everything from the last backup: steelyard restore "
        "FILE --force (what is there now is kept aside).\nWithout either: steelyard renew-authority --data-dir "
        f"{data_dir.root} (it says what stops working then)"
    )


def _has_issued(data_dir: DataDir) -> bool:
    traces = (data_dir.pki / "server.crt", data_dir.kubeconfig, data_dir.remembered)
    return any(path.exists() for path in traces)


def _serves(pair: KeyPair, hosts: list[str], now: datetime.datetime) -> bool:
    if pki.expiry_of(pair.certificate) - now <= renewal.RENEW_BEFORE:
        return False
    return set(hosts) <= set(pki.hosts_of(pair.certificate))


def _load(directory: Path, name: str) -> KeyPair | None:
    """None where there is neither certificate nor key. Raises pki.Unusable."""
    certificate, key = _read(directory / f"{name}.crt"), _read(directory / f"{name}.key")
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise pki.Unusable("certificate", "is missing")
    if key is None:
        raise pki.Unusable("key", "is missing")
    return KeyPair(certificate, key)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _path(directory: Path, name: str, part: str) -> Path:
    return directory / f"{name}.{'crt' if part == 'certificate' else 'key'}"


def _save(directory: Path, name: str, pair: KeyPair) -> None:
    """The key first: a certificate without its key would be taken for complete after a crash."""
    durable.write(directory / f"{name}.key", pair.key)
    durable.write(directory / f"{name}.crt", pair.certificate)

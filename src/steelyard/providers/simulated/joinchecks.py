"""The check that a joining machine passes: kubeadm's bootstrap token, and the authority it was told to trust."""

from __future__ import annotations

import base64
import datetime
import hmac

from steelyard.kube import errors, objects, pki
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.providers.simulated import boot


class Refused(Exception):
    """The machine may not join; the message says why."""


async def check(client: Client, node: boot.Join, authority_certificate: bytes, *, now: datetime.datetime) -> None:
    """Raises `Refused` unless the token is known and unexpired, and the pinned authority is the cluster's."""
    actual = pki.key_hash(authority_certificate)
    if node.authority_hashes and actual not in node.authority_hashes:
        raise Refused(
            f"the cluster's authority is {actual}, but the machine was told to trust {node.authority_hashes[0]}"
        )
    token_id, _, token_secret = node.token.partition(".")
    try:
        secret = await client.get(SECRETS, f"bootstrap-token-{token_id}", "kube-system")
    except errors.NotFound:
        raise Refused(f'the cluster knows no bootstrap token "{token_id}"; it may have expired') from None
    if not hmac.compare_digest(_value(secret, "token-secret"), token_secret.encode()):
        raise Refused(f'the secret of bootstrap token "{token_id}" is wrong')
    expiration = _value(secret, "expiration").decode(errors="replace")
    if expiration and _moment(expiration, token_id) <= now:
        raise Refused(f'bootstrap token "{token_id}" expired at {expiration}')


def _moment(text: str, token_id: str) -> datetime.datetime:
    try:
        return clocks.parse_rfc3339(text)
    except ValueError:
        raise Refused(f'the expiration of bootstrap token "{token_id}" is no time: {text[:40]}') from None


def _value(secret: Object, key: str) -> bytes:
    return base64.b64decode(str(objects.at(secret, "data", key) or ""))

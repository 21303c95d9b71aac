"""What the platform shows to a cluster's etcd, and whom it believes there: both of the Secret `<cluster>-etcd`.

The client certificate lasts a day and is kept in memory alone; it is made anew at half of that, and at once when the
authority is another one.
"""

from __future__ import annotations

import datetime
import hashlib
import ssl
from collections import OrderedDict
from typing import Final

from steelyard.controllers.lifecycle import certificates
from steelyard.frozen import frozen
from steelyard.kube import objects, pki
from steelyard.kube.client import tls
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.runtime.clock import Clock

_LIFETIME: Final = datetime.timedelta(days=1)
_USER: Final = "steelyard"
_MOST_KEPT: Final = 512


@frozen
class _Kept:
    authority: bytes
    """A digest of it."""
    context: ssl.SSLContext
    until: datetime.datetime


class Credentials:
    def __init__(self, client: Client, clock: Clock) -> None:
        """`client` reads the Secrets."""
        self._client = client
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def context(self, cluster: Object) -> ssl.SSLContext:
        """Raises certificates.Missing, with what is wrong about the Secret."""
        authority = await certificates.read_authority(self._client, cluster, certificates.ETCD_CA)
        digest = hashlib.sha256(authority.certificate + b"\0" + authority.key).digest()
        uid, now = objects.uid(cluster), self._clock.now()
        kept = self._kept.get(uid)
        if kept is None or kept.authority != digest or now >= kept.until:
            own = pki.issue_client(authority, _USER, now=now, lifetime=_LIFETIME)
            connection = Connection(
                "https://etcd",
                certificate_authority=authority.certificate,
                client_certificate=own.certificate,
                client_key=own.key,
            )
            kept = _Kept(digest, tls.context_of(connection), now + _LIFETIME / 2)
            self._kept[uid] = kept
        self._kept.move_to_end(uid)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return kept.context

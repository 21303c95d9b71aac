"""Certificates of a process that runs for years: each is replaced while a third of its life is left.

One timer serves all of them. It looks at the wall clock once an hour, because that is what certificates go by: after a
sleep of the machine, or a correction of its clock, a timer alone would be late.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube import pki
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock, Timer

RENEW_BEFORE: Final = pki.LEAF_LIFETIME / 3
_CHECK_SECONDS: Final = 3600.0

Renew: TypeAlias = Callable[[datetime.datetime], bytes]
"""Puts a new certificate into use, as of the given time; the certificate."""

_log = logs.get(__name__)


@frozen
class _Certificate:
    due: datetime.datetime
    renew: Renew


class Renewals:
    """Nothing runs while there is nothing to renew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._certificates: dict[str, _Certificate] = {}
        self._timer: Timer | None = None

    def add(self, name: str, certificate: bytes, renew: Renew) -> None:
        """From now on the certificate (PEM) is renewed in time; one that was added under the name before is not."""
        self._certificates[name] = _Certificate(pki.expiry_of(certificate) - RENEW_BEFORE, renew)
        if self._timer is None:
            self._timer = self._clock.call_later(_CHECK_SECONDS, self._check)

    def remove(self, name: str) -> None:
        self._certificates.pop(name, None)
        if not self._certificates:
            self.close()

    def close(self) -> None:
        self._certificates.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = self._clock.now()
        for name, certificate in list(self._certificates.items()):
            if now < certificate.due:
                continue
            try:
                made = certificate.renew(now)
            except Exception:
                # It is valid for months still, and the next try is in an hour.
                _log.exception("certificate not renewed", certificate=name)
                continue
            self._certificates[name] = _Certificate(pki.expiry_of(made) - RENEW_BEFORE, certificate.renew)
            _log.info("certificate renewed", certificate=name)
        self._timer = self._clock.call_later(_CHECK_SECONDS, self._check)

from __future__ import annotations

import datetime

from steelyard.kube import pki
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.server.transport.renewal import RENEW_BEFORE, Renewals

DAY = 86400.0


class Certificate:
    """One that can be told to fail."""

    def __init__(self, clock: VirtualClock) -> None:
        self.authority = pki.new_authority("ca", now=clock.now())
        self.renewed: list[datetime.datetime] = []
        self.failures = 0
        self.pem = self.issue(clock.now())

    def issue(self, now: datetime.datetime) -> bytes:
        return pki.issue_serving(self.authority, "a", ["localhost"], now=now).certificate

    def renew(self, now: datetime.datetime) -> bytes:
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        self.renewed.append(now)
        return self.issue(now)


async def test_certificate_is_renewed_once_each_time_a_third_of_its_life_is_left() -> None:
    clock = VirtualClock()
    start, renewals, certificate = clock.now(), Renewals(clock), Certificate(clock)
    renewals.add("a", certificate.pem, certificate.renew)
    await clock.advance(1000 * DAY)
    days = [(moment - start) / datetime.timedelta(days=1) for moment in certificate.renewed]
    life = (pki.LEAF_LIFETIME - RENEW_BEFORE) / datetime.timedelta(days=1)
    assert len(days) == 4
    assert all(life * (n + 1) <= day < life * (n + 1) + 1 for n, day in enumerate(days))
    renewals.close()
    assert clock.pending == 0


async def test_failed_renewal_is_tried_again() -> None:
    clock = VirtualClock()
    renewals, certificate = Renewals(clock), Certificate(clock)
    certificate.failures = 5
    renewals.add("a", certificate.pem, certificate.renew)
    await clock.advance(250 * DAY)
    assert len(certificate.renewed) == 1
    renewals.close()


async def test_nothing_runs_for_nothing() -> None:
    clock = VirtualClock()
    renewals, certificate = Renewals(clock), Certificate(clock)
    assert clock.pending == 0
    renewals.add("a", certificate.pem, certificate.renew)
    renewals.add("b", certificate.pem, certificate.renew)
    assert clock.pending == 1
    renewals.remove("a")
    renewals.remove("b")
    assert clock.pending == 0

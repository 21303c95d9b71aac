"""Counters and conditions of a MachineHealthCheck. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

from steelyard.controllers.lifecycle import pausing
from steelyard.controllers.lifecycle.machinehealthcheck.checks import Finding
from steelyard.controllers.lifecycle.machinehealthcheck.limits import Allowance
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts

ALLOWED: Final = "RemediationAllowed"
_LONGEST_LIST: Final = 10_000


def update(check: Object, findings: Sequence[Finding], allowance: Allowance | str, now: datetime.datetime) -> None:
    """`allowance` is a text where it cannot be read."""
    status = check.setdefault("status", {})
    status["expectedMachines"] = len(findings)
    status["currentHealthy"] = sum(each.is_healthy for each in findings)
    status["targets"] = sorted(objects.name(each.machine) for each in findings)[:_LONGEST_LIST]
    if isinstance(allowance, str):
        found = verdicts.false(ALLOWED, "InternalError", allowance)
        status["remediationsAllowed"] = 0
    elif allowance.refusal:
        found = verdicts.false(ALLOWED, "TooManyUnhealthy", allowance.refusal)
        status["remediationsAllowed"] = 0
    else:
        found = verdicts.true(ALLOWED, "RemediationAllowed")
        status["remediationsAllowed"] = allowance.count
    verdicts.record(check, [found, pausing.NOT_PAUSED], now)

"""Conditions of a KubeadmConfig."""

from __future__ import annotations

from steelyard.controllers.lifecycle import summary
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

READY = "Ready"
DATA_SECRET = "DataSecretAvailable"  # noqa: S105 (the name of a condition)
CERTIFICATES = "CertificatesAvailable"

SECRET_AVAILABLE = verdicts.true(DATA_SECRET, "Available")
CERTIFICATES_AVAILABLE = verdicts.true(CERTIFICATES, "Available")


def waiting(message: str) -> list[Verdict]:
    return [verdicts.false(DATA_SECRET, "NotAvailable", message)]


def certificates_missing(message: str) -> list[Verdict]:
    return [
        verdicts.false(DATA_SECRET, "NotAvailable", "Waiting for the cluster's certificates"),
        verdicts.unknown(CERTIFICATES, "InternalError", message),
    ]


def done() -> list[Verdict]:
    return [SECRET_AVAILABLE, CERTIFICATES_AVAILABLE]


def with_ready(found: list[Verdict]) -> list[Verdict]:
    parts = {verdict.type: verdict for verdict in found}
    ready = summary.summarize(READY, parts, (DATA_SECRET, CERTIFICATES), summary.READY, optional=(CERTIFICATES,))
    return [*found, ready]

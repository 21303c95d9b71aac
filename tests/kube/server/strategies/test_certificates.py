"""Certificate requests: who asks is the server's word, what is asked for is checked, approving is a right."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from steelyard.kube import errors, objects, pki
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.call import AUTHENTICATED, User
from tests.kube.server.access.test_rbac import grant, rule
from tests.kube.server.bench import Bench

REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
JANE = User("jane", ("team", AUTHENTICATED), "u-1", {"scopes": ("a", "b")})
SIGNER = "example.com/signer"
KEY = ec.generate_private_key(ec.SECP256R1())


def pem(*organisations: str) -> bytes:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, "jane")]
    attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organisations]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes)).sign(KEY, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def request(**given: Any) -> Object:
    spec: Object = {"request": text(pem()), "signerName": SIGNER, "usages": ["client auth"], **given}
    return {"metadata": {"name": "r"}, "spec": spec}


def approved(type_: str = "Approved") -> Object:
    return {"status": {"conditions": [{"type": type_, "status": "True", "reason": "Fine", "message": ""}]}}


async def made(bench: Bench, **given: Any) -> Object:
    return await bench.create(REQUESTS, request(**given), namespace="", user=JANE)


@pytest.fixture
async def jane(bench: Bench) -> Bench:
    requests = "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status"
    await grant(bench, rule("*", requests, groups="certificates.k8s.io"))
    return bench


async def test_who_asks_is_what_the_server_knows_of_the_caller(jane: Bench) -> None:
    claimed = {"username": "root", "groups": ["system:masters"], "uid": "0", "extra": {"x": ["y"]}}
    spec = (await made(jane, **claimed))["spec"]
    assert {key: spec[key] for key in claimed} == {
        "username": "jane",
        "groups": ["team", AUTHENTICATED],
        "uid": "u-1",
        "extra": {"scopes": ["a", "b"]},
    }


async def test_nothing_of_a_request_changes_once_it_is_made(jane: Bench) -> None:
    before = await made(jane)
    forged = {"username": "root", "groups": ["system:masters"], "signerName": "kubernetes.io/kube-apiserver-client"}
    for body, subresource in (({"spec": forged}, ""), ({"spec": forged}, "status"), ({"spec": forged}, "approval")):
        if subresource == "approval":
            await grant(jane, rule("approve", "signers", groups="certificates.k8s.io"), name="approver")
        await jane.patch(REQUESTS, "r", body, namespace="", user=JANE, subresource=subresource)
    updated = {**await jane.get(REQUESTS, "r", namespace=""), "spec": {**before["spec"], **forged}}
    await jane.update(REQUESTS, updated, namespace="", user=JANE)
    await jane.apply(REQUESTS, {**updated, "metadata": {"name": "r"}}, namespace="", user=JANE, force="true")
    assert (await jane.get(REQUESTS, "r", namespace=""))["spec"] == before["spec"]


async def test_nobody_creates_a_request_that_is_approved_already(jane: Bench) -> None:
    body = {**request(), **approved()}
    created = await jane.create(REQUESTS, body, namespace="", user=JANE)
    assert not objects.at(created, "status", "conditions")


BAD: dict[str, tuple[Object, str]] = {
    "no PEM": (
        {"request": text(b"no")},
        'spec.request: Invalid value: "bm8=": PEM block type must be CERTIFICATE REQUEST',
    ),
    "a certificate": (
        {"request": text(pki.new_authority("ca", now=datetime.datetime.now(datetime.UTC)).certificate)},
        "PEM block type must be CERTIFICATE REQUEST",
    ),
    "garbage in PEM": (
        {"request": text(b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")},
        "asn1: structure error",
    ),
    "no usages": ({"usages": []}, "spec.usages: Required value"),
    "an unknown usage": ({"usages": ["magic"]}, 'spec.usages[0]: Unsupported value: "magic": supported values: "any"'),
    "a usage twice": ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
    "no signer": ({"signerName": ""}, "spec.signerName: Required value"),
    "a signer without a path": (
        {"signerName": "me"},
        "must be a fully qualified domain and path of the form 'example.com/signer-name'",
    ),
    "a signer without a domain": (
        {"signerName": "me/too"},
        "should be a domain with at least two segments separated by dots",
    ),
    "the legacy signer": (
        {"signerName": "kubernetes.io/legacy-unknown"},
        "the legacy signerName is not allowed via this API version",
    ),
    "too short": (
        {"expirationSeconds": 599},
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD)
async def test_what_is_asked_for_is_checked(jane: Bench, given: Object, message: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await made(jane, **given)
    assert message in caught.value.message


async def test_a_request_must_be_signed_with_its_own_key(jane: Bench) -> None:
    der = base64.b64decode(b"".join(pem().splitlines()[1:-1]))
    spoilt = base64.encodebytes(der[:-4] + bytes(byte ^ 1 for byte in der[-4:]))
    body = b"-----BEGIN CERTIFICATE REQUEST-----\n" + spoilt + b"-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(errors.Invalid, match="x509: ECDSA verification failure"):
        await made(jane, request=text(body))


async def test_no_certificate_makes_an_administrator(jane: Bench) -> None:
    with pytest.raises(errors.Forbidden) as caught:
        await made(jane, request=text(pem("system:masters")), signerName="kubernetes.io/kube-apiserver-client")
    assert caught.value.message == (
        'certificatesigningrequests.certificates.k8s.io "r" is forbidden: use of kubernetes.io/kube-apiserver-client '
        "signer with system:masters group is not allowed"
    )


async def test_approving_needs_the_right_to_approve_for_the_signer(jane: Bench) -> None:
    await made(jane)
    with pytest.raises(errors.Forbidden) as caught:
        await jane.patch(REQUESTS, "r", approved(), namespace="", user=JANE, subresource="approval")
    assert caught.value.message == (
        'certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to approve requests with '
        'signerName "example.com/signer"'
    )
    await grant(
        jane, rule("approve", "signers", groups="certificates.k8s.io", names=["example.com/*"]), name="approver"
    )
    after = await jane.patch(REQUESTS, "r", approved(), namespace="", user=JANE, subresource="approval")
    (condition,) = after["status"]["conditions"]
    assert condition["type"] == "Approved"
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_a_decision_is_made_once_and_only_by_approval(jane: Bench) -> None:
    await grant(jane, rule("approve sign", "signers", groups="certificates.k8s.io"), name="signer")
    await made(jane)
    with pytest.raises(errors.Invalid, match='updates may not add a condition of type "Approved"'):
        await jane.patch(REQUESTS, "r", approved(), namespace="", user=JANE, subresource="status")
    await jane.patch(REQUESTS, "r", approved(), namespace="", user=JANE, subresource="approval")
    with pytest.raises(errors.Invalid, match='updates may not remove a condition of type "Approved"'):
        await jane.patch(REQUESTS, "r", approved("Denied"), namespace="", user=JANE, subresource="approval")


async def test_signing_needs_the_right_to_sign_and_happens_once(jane: Bench) -> None:
    now = datetime.datetime.now(datetime.UTC)
    one, other = (text(pki.new_authority(name, now=now).certificate) for name in ("a", "b"))
    await made(jane)

    async def sign(certificate: str) -> Object:
        body = {"status": {"certificate": certificate}}
        return await jane.patch(REQUESTS, "r", body, namespace="", user=JANE, subresource="status")

    with pytest.raises(errors.Forbidden, match="user not permitted to sign requests with signerName"):
        await sign(one)
    await grant(jane, rule("sign", "signers", groups="certificates.k8s.io", names=[SIGNER]), name="signer")
    with pytest.raises(errors.Invalid, match="must contain at least one CERTIFICATE PEM block"):
        await sign(text(b"nothing"))
    assert (await sign(one))["status"]["certificate"] == one
    with pytest.raises(errors.Invalid, match="updates may not modify existing certificate content"):
        await sign(other)

from __future__ import annotations

import datetime
import hashlib
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from steelyard.kube import errors, pki
from steelyard.kube.server.access import defaults
from steelyard.kube.server.call import AUTHENTICATED, SYSTEM_MASTERS, Call, User
from steelyard.kube.server.rights import authn, authz
from steelyard.kube.server.rights.authn import TokensAndCertificates

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ADMIN = User("admin", (SYSTEM_MASTERS, AUTHENTICATED))
JANE = User("jane", (AUTHENTICATED,))


def test_a_token_names_its_user_who_is_then_authenticated() -> None:
    known = TokensAndCertificates({authn.hash_token("secret"): User("jane", ("team",))})
    assert known.token("secret") == User("jane", ("team", AUTHENTICATED))
    with pytest.raises(errors.Unauthorized):
        known.token("Secret")


def test_a_certificate_names_user_and_groups() -> None:
    authority = pki.new_authority("ca", now=NOW)
    pair = pki.issue_client(authority, "jane", ["team", "other"], now=NOW)
    der = ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
    user, expires = TokensAndCertificates().certificate(der)
    assert user is not None
    assert user.name == "jane"
    assert set(user.groups) == {"team", "other", AUTHENTICATED}
    assert user.extra[authn.CREDENTIAL_ID] == (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)
    assert expires == (NOW + pki.LEAF_LIFETIME).timestamp()


def certified(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.DER)


def test_a_certificate_without_a_name_is_nobodys() -> None:
    der = certified((x509.NameOID.ORGANIZATION_NAME, SYSTEM_MASTERS))
    assert TokensAndCertificates().certificate(der)[0] is None


def test_a_certificate_may_hold_one_uid() -> None:
    name, uid = (x509.NameOID.COMMON_NAME, "jane"), x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
    user, _ = TokensAndCertificates().certificate(certified(name, (uid, "1234")))
    assert user is not None
    assert user.uid == "1234"
    with pytest.raises(errors.Unauthorized):
        TokensAndCertificates().certificate(certified(name, (uid, "1234"), (uid, "5678")))


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        (" bearer abc ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer  abc", ""),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("", None),
    ],
)
def test_the_token_is_taken_from_the_header(header: str, token: str | None) -> None:
    assert authn.bearer_token(header) == token


@pytest.mark.parametrize(
    ("user", "path", "allowed"),
    [
        (authn.ANONYMOUS, "/healthz", True),
        (authn.ANONYMOUS, "/readyz", True),
        (authn.ANONYMOUS, "/readyz/store", False),
        (JANE, "/readyz/store", False),
        (authn.ANONYMOUS, "/version", True),
        (authn.ANONYMOUS, "/apis", False),
        (authn.ANONYMOUS, "/metrics", False),
        (JANE, "/apis", True),
        (JANE, "/apis/apps/v1", True),
        (JANE, "/openapi/v3/api/v1", True),
        (JANE, "/apisx", False),
        (JANE, "/metrics", False),
        (ADMIN, "/metrics", True),
    ],
)
def test_paths_are_open_to_those_who_need_them(user: User, path: str, allowed: bool) -> None:
    policy = defaults.policy()
    assert policy.decide(authz.Attributes(user, "get", path=path)).allowed is allowed
    assert policy.decide(authz.Attributes(user, "post", path=path)).allowed is (user is ADMIN)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            Call("list", "", "v1", "secrets", JANE, "default"),
            'secrets is forbidden: User "jane" cannot list resource "secrets" in API group ""'
            ' in the namespace "default"',
        ),
        (
            Call("update", "apps", "v1", "deployments", JANE, "a", "b", "status"),
            'deployments.apps "b" is forbidden: User "jane" cannot update resource "deployments/status"'
            ' in API group "apps" in the namespace "a"',
        ),
        (
            Call("get", "", "v1", "nodes", JANE, "", "n"),
            'nodes "n" is forbidden: User "jane" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        (
            Call("delete", "", "v1", "namespaces", JANE, "", "a"),
            'namespaces "a" is forbidden: User "jane" cannot delete resource "namespaces" in API group ""'
            ' in the namespace "a"',
        ),
    ],
)
def test_a_refusal_is_worded_as_upstream(call: Call, message: str) -> None:
    with pytest.raises(errors.Forbidden) as caught:
        authz.authorize_call(defaults.policy(), call)
    assert caught.value.message == message
    call.user = ADMIN
    authz.authorize_call(defaults.policy(), call)


def test_a_refused_path_is_worded_as_upstream() -> None:
    with pytest.raises(errors.Forbidden) as caught:
        authz.authorize_path(defaults.policy(), authn.ANONYMOUS, "GET", "/metrics")
    assert caught.value.message == 'forbidden: User "system:anonymous" cannot get path "/metrics"'

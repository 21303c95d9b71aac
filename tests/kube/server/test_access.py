from __future__ import annotations

import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from steelyard.kube import errors, pki
from steelyard.kube.server import authn, authz
from steelyard.kube.server.access import defaults
from steelyard.kube.server.authn import TokensAndCertificates
from steelyard.kube.server.call import AUTHENTICATED, SYSTEM_MASTERS, Call, User

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
    user = TokensAndCertificates().certificate(der)
    assert user.name == "jane"
    assert set(user.groups) == {"team", "other", AUTHENTICATED}


def test_a_certificate_without_a_name_is_refused() -> None:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, SYSTEM_MASTERS)])
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    with pytest.raises(errors.Unauthorized):
        TokensAndCertificates().certificate(certificate.public_bytes(serialization.Encoding.DER))


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", ""), ("Bearer", ""), ("Bearer ", ""), ("", "")],
)
def test_the_token_is_taken_from_the_header(header: str, token: str) -> None:
    assert authn.bearer_token(header) == token


@pytest.mark.parametrize(
    ("user", "path", "allowed"),
    [
        (authn.ANONYMOUS, "/healthz", True),
        (authn.ANONYMOUS, "/readyz", True),
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

"""Service accounts, their tokens, and acting as somebody else."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.server.access import impersonation
from steelyard.kube.server.access.accounts import SERVICE_ACCOUNTS
from steelyard.kube.server.call import AUTHENTICATED, SYSTEM_MASTERS, UNAUTHENTICATED, User
from steelyard.kube.server.rights import accounttokens
from steelyard.kube.server.rights.authn import TokensAndCertificates, hash_token
from tests.kube.server.access.test_rbac import JANE, grant, rule
from tests.kube.server.bench import Bench, eventually, make

REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ROBOT = "system:serviceaccount:default:robot"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED)


async def robot(bench: Bench) -> Object:
    return await bench.create(SERVICE_ACCOUNTS, make(SERVICE_ACCOUNTS, "robot"))


async def request(bench: Bench, spec: Object | None = None, name: str = "robot") -> Object:
    return await bench.create(SERVICE_ACCOUNTS, {"spec": spec or {}}, name=name, subresource="token")


async def token(bench: Bench, spec: Object | None = None) -> str:
    return (await request(bench, spec))["status"]["token"]


def claims_of(token: str) -> Object:
    body = token.split(".")[1]
    return orjson.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def is_known(bench: Bench, token: str) -> bool:
    try:
        bench.api.access.token(token)
    except errors.Unauthorized:
        return False
    return True


async def test_every_namespace_has_its_default_account(bench: Bench) -> None:
    assert await bench.names(SERVICE_ACCOUNTS) == ["default"]
    await bench.create(NAMESPACES, make(NAMESPACES, "new"), namespace="")
    await eventually(lambda: bench.exists(SERVICE_ACCOUNTS, "default", namespace="new"))
    first = await bench.get(SERVICE_ACCOUNTS, "default")
    await bench.delete(SERVICE_ACCOUNTS, "default")

    async def is_back() -> bool:
        exists = await bench.exists(SERVICE_ACCOUNTS, "default")
        return exists and objects.uid(await bench.get(SERVICE_ACCOUNTS, "default")) != objects.uid(first)

    await eventually(is_back)
    await bench.delete(NAMESPACES, "new", namespace="")

    async def is_gone() -> bool:
        return not await bench.exists(NAMESPACES, "new", namespace="")

    await eventually(is_gone)


async def test_a_token_names_its_account(bench: Bench) -> None:
    account = await robot(bench)
    answer = await request(bench, {"expirationSeconds": 7200})
    assert answer["status"]["expirationTimestamp"] == "2026-01-01T02:00:00Z"
    assert answer["spec"]["audiences"] == [accounttokens.DEFAULT_ISSUER]
    issued = answer["status"]["token"]
    user = bench.api.access.token(issued)
    assert (user.name, user.groups, user.uid) == (ROBOT, GROUPS, objects.uid(account))
    claims = claims_of(issued)
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
    assert (claims["exp"] - claims["iat"], claims["sub"], claims["iss"]) == (7200, ROBOT, accounttokens.DEFAULT_ISSUER)
    assert claims["kubernetes.io"] == {
        "namespace": "default",
        "serviceaccount": {"name": "robot", "uid": objects.uid(account)},
    }


async def test_a_token_ends_with_its_time(bench: Bench) -> None:
    await robot(bench)
    issued = await token(bench, {"expirationSeconds": 600})
    bench.clock.advance(599)
    assert is_known(bench, issued)
    bench.clock.advance(120)
    assert not is_known(bench, issued)


async def test_a_token_ends_with_its_account(bench: Bench) -> None:
    await robot(bench)
    issued = await token(bench)
    assert is_known(bench, issued)
    await bench.delete(SERVICE_ACCOUNTS, "robot")
    assert not is_known(bench, issued)
    await robot(bench)
    assert not is_known(bench, issued), "an account of the same name is another one"


async def test_a_token_ends_with_the_object_it_is_bound_to(bench: Bench) -> None:
    await robot(bench)
    secret = await bench.create(SECRETS, make(SECRETS, "s"))
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    issued = await token(bench, {"boundObjectRef": reference})
    assert claims_of(issued)["kubernetes.io"]["secret"] == {"name": "s", "uid": objects.uid(secret)}
    assert is_known(bench, issued)
    with pytest.raises(errors.Conflict, match="does not match the UID in record"):
        await token(bench, {"boundObjectRef": {**reference, "uid": "other"}})
    await bench.delete(SECRETS, "s")
    assert not is_known(bench, issued)
    with pytest.raises(errors.NotFound):
        await token(bench, {"boundObjectRef": reference})


async def test_a_token_for_others_is_not_accepted_here(bench: Bench) -> None:
    await robot(bench)
    issued = await token(bench, {"audiences": ["vault"]})
    assert not is_known(bench, issued)
    reviewed = await bench.create(REVIEWS, {"spec": {"token": issued, "audiences": ["x", "vault"]}}, namespace="")
    assert reviewed["status"]["authenticated"] is True
    assert reviewed["status"]["audiences"] == ["vault"]
    assert reviewed["status"]["user"]["username"] == ROBOT
    refused = await bench.create(REVIEWS, {"spec": {"token": issued}}, namespace="")
    assert "authenticated" not in refused["status"]
    assert "is invalid for the target audiences" in refused["status"]["error"]


async def test_a_changed_token_is_refused(bench: Bench) -> None:
    await robot(bench)
    head, body, signature = (await token(bench)).split(".")
    claims = claims_of(f"{head}.{body}.")
    claims["sub"] = "system:serviceaccount:kube-system:default"
    claims["kubernetes.io"]["namespace"] = "kube-system"
    forged = base64.urlsafe_b64encode(orjson.dumps(claims)).rstrip(b"=").decode()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    other = signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")
    for odd in (
        f"{head}.{forged}.{signature}", f"{unsigned}.{body}.{signature}", f"{unsigned}.{body}.", f"{head}.{body}.",
        f"{head}.{body}.{other}", f"{head}.{body}", "..", "a.b.c", "eyJ.é.x", f"{head}.{body}.{signature}.x",
    ):  # fmt: skip
        assert not is_known(bench, odd), odd


async def test_anyone_can_verify_a_token_with_the_published_key(bench: Bench) -> None:
    await robot(bench)
    signed, _, signature = (await token(bench)).rpartition(".")
    bench.api.access.address = "https://127.0.0.1:6443"
    configuration = _document(bench, "/.well-known/openid-configuration")
    assert configuration["jwks_uri"] == "https://127.0.0.1:6443/openid/v1/jwks"
    key = _document(bench, "/openid/v1/jwks")["keys"][0]

    def number(text: str | bytes) -> int:
        padded = (text if isinstance(text, bytes) else text.encode()) + b"=="
        return int.from_bytes(base64.urlsafe_b64decode(padded), "big")

    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    raw = base64.urlsafe_b64decode(signature + "==")
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    public.verify(utils.encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))


def _document(bench: Bench, path: str) -> Object:
    document = bench.api.document(path, "")
    assert document is not None
    return orjson.loads(document.body)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"spec": {"expirationSeconds": 60}}, errors.Invalid),
        ({"spec": {"expirationSeconds": 2**33}}, errors.Invalid),
        ({"spec": {"expirationSeconds": "x"}}, errors.BadRequest),
        ({"spec": {"audiences": "x"}}, errors.BadRequest),
        ({"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}}, errors.BadRequest),
        ({"metadata": {"name": "other"}}, errors.Invalid),
        ({"kind": "Pod"}, errors.BadRequest),
        ([], errors.BadRequest),
    ],
)
async def test_bad_requests_for_tokens(bench: Bench, body: Any, error: type[Exception]) -> None:
    await robot(bench)
    with pytest.raises(error):
        await bench.create(SERVICE_ACCOUNTS, body, name="robot", subresource="token")


async def test_no_token_for_an_account_that_does_not_exist(bench: Bench) -> None:
    with pytest.raises(errors.NotFound, match='serviceaccounts "nobody" not found'):
        await request(bench, name="nobody")


async def test_reviews_know_static_tokens_too(bench: Bench) -> None:
    bench.api.access.know(TokensAndCertificates({hash_token("secret"): User("jane", ("team",))}))
    reviewed = await bench.create(REVIEWS, {"spec": {"token": "secret"}}, namespace="")
    assert reviewed["status"] == {
        "authenticated": True,
        "user": {"username": "jane", "groups": ["team", AUTHENTICATED]},
        "audiences": [accounttokens.DEFAULT_ISSUER],
    }
    with pytest.raises(errors.BadRequest, match="token is required"):
        await bench.create(REVIEWS, {}, namespace="")


ADMIN = User("admin", (SYSTEM_MASTERS,))


def acting(bench: Bench, caller: User, /, **headers: str | list[str]) -> User:
    listed = [
        (f"impersonate-{name.replace('_', '-').lower()}".encode(), value.encode())
        for name, values in headers.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return impersonation.acting_user(bench.api.access.rbac, caller, listed, "/api")


async def test_who_one_becomes(bench: Bench) -> None:
    assert acting(bench, ADMIN) is ADMIN
    assert acting(bench, ADMIN, user="joe") == User("joe", (AUTHENTICATED,))
    assert acting(bench, ADMIN, user="joe", group=["a", "b"]) == User("joe", ("a", "b", AUTHENTICATED))
    assert acting(bench, ADMIN, user="joe", group=UNAUTHENTICATED) == User("joe", (UNAUTHENTICATED,))
    assert acting(bench, ADMIN, user="system:anonymous") == User("system:anonymous", (UNAUTHENTICATED,))
    assert acting(bench, ADMIN, user=ROBOT) == User(ROBOT, GROUPS)
    everything = acting(bench, ADMIN, user="joe", uid="7", extra_Scopes=["x", "y"])
    assert everything == User("joe", (AUTHENTICATED,), "7", {"scopes": ("x", "y")})
    with pytest.raises(errors.PlainInternalError, match="without impersonating a user"):
        acting(bench, ADMIN, group="a")


async def test_one_becomes_only_whom_one_may(bench: Bench) -> None:
    with pytest.raises(errors.Forbidden) as caught:
        acting(bench, JANE, user="joe")
    assert caught.value.message == (
        'users "joe" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope'
    )
    await grant(bench, rule("impersonate", "users", names=["joe"]))
    assert acting(bench, JANE, user="joe").name == "joe"
    for more in ({"group": "system:masters"}, {"uid": "7"}, {"extra_scopes": "x"}):
        with pytest.raises(errors.Forbidden):
            acting(bench, JANE, user="joe", **more)
    with pytest.raises(errors.Forbidden):
        acting(bench, JANE, user=ROBOT)
    await grant(bench, rule("impersonate", "userextras/scopes", groups="authentication.k8s.io"), name="extras")
    await grant(bench, rule("impersonate", "serviceaccounts"), namespace="default", name="accounts")
    assert acting(bench, JANE, user="joe", extra_scopes="x").extra == {"scopes": ("x",)}
    assert acting(bench, JANE, user=ROBOT).groups == GROUPS
    with pytest.raises(errors.Forbidden):
        acting(bench, JANE, user="system:serviceaccount:kube-system:robot")

"""A Vault that is late, broken or elsewhere: what callers hear, and how often it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from steelyard.vault import errors
from steelyard.vault.client import Vault
from steelyard.vault.keyvalue import KeyValue
from steelyard.vault.logins import Exchange, Token
from tests.vault import faulty
from tests.vault.faulty import Answer, Fault, FaultyVault


@pytest.fixture
def server() -> Generator[FaultyVault]:
    with faulty.serving() as serving:
        yield serving


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def anything(method: str, path: str) -> bool:
    return True


def of_data(method: str, path: str) -> bool:
    return path.startswith("secret/data/")


def writing_data(method: str, path: str) -> bool:
    return method == "POST" and path.startswith("secret/data/")


@pytest.mark.parametrize(
    ("answer", "family"),
    [
        (Answer(503, {"errors": ["Vault is sealed"]}), errors.Sealed),
        (Answer(502, b"<html>bad gateway</html>"), errors.Away),
        (Answer(429, {"errors": ["too many"]}), errors.Away),
        (Answer(500, {"errors": ["internal"]}), errors.Invalid),
        (Answer(200, {"data": {}}, is_cut=True), errors.Away),
        (Answer(200, {"data": {}}, delay=1.0), errors.Away),
        (Answer(307, b"", {"Location": "https://elsewhere.example.com/v1/x"}), errors.Away),
    ],
    ids=["sealed", "a page of a proxy", "rate limit", "internal error", "cut short", "too late", "sent elsewhere"],
)
async def test_what_is_no_answer_is_told_as_what_it_is(
    server: FaultyVault, answer: Answer, family: type[errors.VaultError]
) -> None:
    vault = Vault(server.address, Token("t"), timeout=0.3)
    server.faults.append(Fault(of_data, answer, times=2))

    with pytest.raises(family):
        await vault.read("secret/data/a")
    vault.close()


async def test_the_token_is_not_shown_where_vault_sends_to(server: FaultyVault) -> None:
    with faulty.serving() as elsewhere:
        server.faults.append(Fault(of_data, Answer(307, b"", {"Location": f"{elsewhere.address}/v1/secret/data/a"})))
        vault = Vault(server.address, Token("very-secret"))

        with pytest.raises(errors.Away, match="sends elsewhere"):
            await vault.read("secret/data/a")

        assert elsewhere.tokens == []
        vault.close()


async def test_while_vault_is_away_one_asks_and_the_others_are_told(server: FaultyVault) -> None:
    clock = Clock()
    vault = Vault(server.address, Token("t"), monotonic=clock)
    server.faults.append(Fault(anything, Answer(503, {"errors": ["Vault is sealed"]}), times=1000))

    outcomes = [await failure(vault) for _ in range(50)]
    assert {type(each) for each in outcomes} == {errors.Sealed}
    asked = len(server.requests)
    assert asked <= 3, "every caller has asked"
    for _ in range(100):
        clock.now += 1.0
        await failure(vault)
    assert len(server.requests) - asked < 30, "it was asked as often as if it were there"

    server.faults.clear()
    clock.now += 60.0
    assert await vault.read("secret/data/a") is None
    assert vault.trouble is None
    vault.close()


async def failure(vault: Vault) -> errors.VaultError:
    with pytest.raises(errors.VaultError) as raised:
        await vault.read("secret/data/a")
    return raised.value


async def test_a_login_that_ended_before_its_time_is_had_again(server: FaultyVault) -> None:
    shown: list[str] = []

    async def show() -> dict[str, object]:
        shown.append("secret-id")
        return {"role_id": "r", "secret_id": "s"}

    auth = {"client_token": "given", "lease_duration": 3600, "renewable": True}
    server.faults.append(Fault(lambda _, path: path == "auth/approle/login", Answer(body={"auth": auth}), times=9))
    server.faults.append(Fault(of_data, Answer(403, {"errors": ["permission denied"]})))
    vault = Vault(server.address, Exchange("auth/approle/login", show))

    assert await vault.read("secret/data/a") is None

    assert len(shown) == 2
    vault.close()


async def test_a_refused_login_does_not_say_what_was_shown(server: FaultyVault) -> None:
    async def show() -> dict[str, object]:
        return {"role_id": "role", "secret_id": "very-secret-id"}

    server.faults.append(Fault(anything, Answer(400, {"errors": ["invalid secret id very-secret-id"]}), times=9))
    vault = Vault(server.address, Exchange("auth/approle/login", show))

    with pytest.raises(errors.Refused) as raised:
        await vault.read("secret/data/a")
    assert "very-secret-id" not in str(raised.value)
    vault.close()


async def test_a_write_that_was_broken_off_is_found_again(server: FaultyVault) -> None:
    vault = Vault(server.address, Token("t"), timeout=0.3)
    keys = KeyValue(vault, "secret")
    server.faults.append(Fault(writing_data, Answer(500, {"errors": ["killed"]})))

    with pytest.raises(errors.Invalid):
        await keys.change("apps/a", lambda _: {"x": "1"})
    assert server.marks["apps/a"] == {"managed-by": "external-secrets"}, "it would be nobody's"
    assert await keys.change("apps/a", lambda _: {"x": "1"})
    assert not await keys.change("apps/a", lambda _: {"x": "1"}), "written though nothing differed"
    assert server.versions["apps/a"] == 1
    vault.close()


async def test_two_who_change_different_keys_at_once_both_get_theirs_in(server: FaultyVault) -> None:
    vault = Vault(server.address, Token("t"))
    keys = KeyValue(vault, "secret")

    await asyncio.gather(*(keys.change("apps/a", lambda here, n=n: {**here, f"k{n}": "v"}) for n in range(4)))

    assert set(server.data["apps/a"]) == {"k0", "k1", "k2", "k3"}
    vault.close()

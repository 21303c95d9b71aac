"""What a joining machine must show, and that it has it for as long as it takes to join."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path
from typing import cast

import pytest

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.kubeadmconfig import jointokens as made
from steelyard.kube import objects, pki
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from steelyard.providers.simulated import boot, joinchecks
from steelyard.providers.simulated.machines import Delays
from tests.controllers import whole as stages
from tests.controllers.whole import CLAIMS, NAMESPACE, Whole
from tests.kube.runtime.memory import MemoryClient

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
AUTHORITY = pki.new_authority("kubernetes", now=NOW)
TOKEN = "abcdef.0123456789abcdef"


@pytest.fixture
async def workload() -> Client:
    client = cast(Client, MemoryClient())
    await made.ensure(client, TOKEN, NOW)
    return client


def joining(token: str = TOKEN, pin: str = "") -> boot.Join:
    return boot.Join("w", token, (pin or pki.key_hash(AUTHORITY.certificate),), "127.0.0.1:6443", None)


class TestTheCheck:
    async def test_lets_a_machine_in_with_token_and_authority(self, workload: Client) -> None:
        await joinchecks.check(workload, joining(), AUTHORITY.certificate, now=NOW)

    @pytest.mark.parametrize(
        ("node", "complaint"),
        [
            pytest.param(joining("ghijkl.0123456789abcdef"), "knows no bootstrap token", id="a token nobody knows"),
            pytest.param(joining("abcdef.fedcba9876543210"), "is wrong", id="the wrong secret"),
            pytest.param(joining("abcdef."), "is wrong", id="no secret at all"),
            pytest.param(joining(pin="sha256:00"), "was told to trust sha256:00", id="another authority"),
        ],
    )
    async def test_refuses(self, workload: Client, node: boot.Join, complaint: str) -> None:
        with pytest.raises(joinchecks.Refused, match=complaint):
            await joinchecks.check(workload, node, AUTHORITY.certificate, now=NOW)

    async def test_refuses_a_token_from_the_moment_it_expires(self, workload: Client) -> None:
        await joinchecks.check(workload, joining(), AUTHORITY.certificate, now=NOW + made.LIFETIME - MINUTE / 60)
        with pytest.raises(joinchecks.Refused, match="expired"):
            await joinchecks.check(workload, joining(), AUTHORITY.certificate, now=NOW + made.LIFETIME)


class TestRenewal:
    async def expiration(self, workload: Client) -> datetime.datetime:
        secret = await workload.get(SECRETS, "bootstrap-token-abcdef", "kube-system")
        return clocks.parse_rfc3339(base64.b64decode(secret["data"]["expiration"]).decode())

    async def test_a_token_that_is_looked_at_as_often_as_it_should_never_expires(self, workload: Client) -> None:
        now = NOW
        for _ in range(20):
            now += made.CHECK_INTERVAL
            assert await self.expiration(workload) - now >= made.LIFETIME / 2, "long enough to boot with"
            await made.ensure(workload, TOKEN, now)

    async def test_a_fresh_token_is_left_alone(self, workload: Client) -> None:
        before = await self.expiration(workload)
        await made.ensure(workload, TOKEN, NOW + MINUTE)
        assert await self.expiration(workload) == before

    async def test_a_token_that_was_cleaned_away_is_made_again(self, workload: Client) -> None:
        await workload.delete(SECRETS, "bootstrap-token-abcdef", "kube-system")
        await made.ensure(workload, TOKEN, NOW + 400 * 24 * 60 * MINUTE)
        assert await self.expiration(workload) == NOW + 400 * 24 * 60 * MINUTE + made.LIFETIME

    async def test_an_expiration_that_is_no_time_is_set_right(self, workload: Client) -> None:
        damaged = {"data": {"expiration": base64.b64encode(b"tomorrow").decode()}}
        await workload.patch(SECRETS, "bootstrap-token-abcdef", damaged, "kube-system")
        await made.ensure(workload, TOKEN, NOW)
        assert await self.expiration(workload) == NOW + made.LIFETIME


class TestSlowMachines:
    async def test_a_machine_that_takes_an_hour_still_joins(self, tmp_path: Path) -> None:
        async with stages.opened(tmp_path) as whole:
            await whole.claim()
            await whole.until_ready()
            await whole.crash()
            whole.delays = Delays(join=3600.0)
            await whole.start()
            await whole.client.patch(CLAIMS, "c", {"spec": {"parameters": {"workerReplicas": 2}}}, NAMESPACE)
            name = await self._joining_machine(whole)
            for _ in range(11):
                whole.clock.move(5 * MINUTE)
                await whole.manager.idle(settle=0.1)
                machine = await whole.one(resources.SIMULATED_MACHINES, name)
                assert conditions.reason_of(machine, "Ready") == "Joining"
                assert await self._valid_tokens(whole)
            whole.clock.move(6 * MINUTE)
            await whole.until_ready()
            assert len(await whole.all(capi.MACHINES)) == 3

    async def test_bootstrap_data_of_another_cluster_lets_nobody_in(self, tmp_path: Path) -> None:
        """The pin in it is of an authority that this cluster does not have."""
        async with stages.opened(tmp_path) as whole:
            for name in ("c", "d"):
                await whole.claim(name)
                await whole.until_ready(name)
            await whole.crash()
            whole.delays = Delays(join=3600.0)
            await whole.start()
            await whole.client.patch(CLAIMS, "c", {"spec": {"parameters": {"workerReplicas": 2}}}, NAMESPACE)
            name = await self._joining_machine(whole)
            foreign = next(
                each
                for each in await whole.all(capi.MACHINES)
                if objects.at(each, "spec", "clusterName") == "d" and "md-0" in objects.name(each)
            )
            data = (await whole.one(SECRETS, objects.name(foreign)))["data"]
            await whole.client.patch(SECRETS, name, {"data": data}, NAMESPACE)
            whole.clock.move(61 * MINUTE)

            async def refused() -> bool:
                machine = await whole.one(resources.SIMULATED_MACHINES, name)
                return "the machine was told to trust sha256:" in conditions.message_of(machine, "Ready")

            await whole.until(refused, "the machine refused")

    async def _joining_machine(self, whole: Whole) -> str:
        found: list[Object] = []

        async def joins() -> bool:
            machines = await whole.all(resources.SIMULATED_MACHINES)
            found[:] = [each for each in machines if conditions.reason_of(each, "Ready") == "Joining"]
            return bool(found)

        await whole.until(joins, "a machine that joins")
        return objects.name(found[0])

    async def _valid_tokens(self, whole: Whole) -> list[str]:
        infrastructure = await whole.one(resources.SIMULATED_CLUSTERS, "c")
        api = whole.hosting.running(objects.uid(infrastructure))
        assert api is not None
        now = clocks.rfc3339(whole.clock.now())
        secrets = (await LocalClient(api).list(SECRETS, "kube-system")).items
        texts = [str(objects.at(each, "data", "expiration") or "") for each in secrets]
        return [text for text in texts if base64.b64decode(text).decode() > now]


async def test_longer_delays_are_for_machines_to_come(tmp_path: Path) -> None:
    async with stages.opened(tmp_path) as whole:
        await whole.claim()
        await whole.until_ready()
        await whole.crash()
        whole.delays = Delays(boot=3600.0, join=3600.0)
        revision = whole.store.revision
        await whole.start()
        await whole.manager.idle(within=1.0, settle=0.2)
        assert await whole.is_ready()
        assert whole.store.revision == revision


async def test_a_boot_time_of_zero_is_none_at_all(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, Delays(boot=3600.0)) as whole:
        await whole.claim()

        found: list[Object] = []

        async def boots() -> bool:
            machines = await whole.all(resources.SIMULATED_MACHINES)
            found[:] = [each for each in machines if objects.at(each, "status", "phase") == "Booting"]
            return bool(found)

        await whole.until(boots, "the first machine")
        [machine] = found
        patch = {"spec": {"bootSeconds": 0}}
        await whole.client.patch(resources.SIMULATED_MACHINES, objects.name(machine), patch, NAMESPACE)

        async def runs() -> bool:
            found = await whole.one(resources.SIMULATED_MACHINES, objects.name(machine))
            return conditions.is_true(found, "Ready")

        await whole.until(runs, "a machine that runs at once")

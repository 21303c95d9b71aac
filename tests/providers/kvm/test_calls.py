"""Calls in threads: deadlines, what hangs, and the families of libvirt's errors."""

from __future__ import annotations

import asyncio
import errno
import importlib
import importlib.util
import threading
from typing import Any

import pytest

from steelyard.providers.kvm.libvirt import problems
from steelyard.providers.kvm.libvirt.calls import Calls
from steelyard.providers.kvm.libvirt.problems import Away, Exists, Failed, Hung, Missing, NoSpace, WrongState
from tests.providers.kvm.world import PATIENCE, eventually


async def test_a_call_that_hangs_is_given_up_and_what_it_was_about_is_left_alone() -> None:
    calls, release = Calls("metal"), threading.Event()
    with pytest.raises(Hung, match=r"metal: define: not answered within 0\.05 seconds"):
        await calls.run("define", release.wait, subject="a", deadline=0.05)
    assert calls.hanging == ["define"]
    with pytest.raises(Hung, match="waiting for an earlier call to come back: define"):
        await calls.run("delete", lambda: 1, subject="a", deadline=60)
    assert await calls.run("look", lambda: 2, subject="b", deadline=60) == 2, "another is asked about"
    release.set()
    await _all_back(calls)
    assert await calls.run("delete", lambda: 3, subject="a", deadline=60) == 3


async def test_a_host_that_does_not_answer_is_asked_one_thing_at_a_time() -> None:
    calls, release = Calls("metal"), threading.Event()
    with pytest.raises(Hung):
        await calls.run("first", release.wait, deadline=0.05)
    trial = asyncio.create_task(calls.run("trial", release.wait, deadline=60))
    await asyncio.sleep(0.05)
    with pytest.raises(Hung, match="does not answer; it was last asked to trial"):
        await calls.run("third", lambda: 1, deadline=60)
    release.set()
    await trial
    assert await calls.run("fourth", lambda: 4, deadline=60) == 4


async def test_no_more_than_a_few_calls_are_under_way_at_once() -> None:
    calls, release = Calls("metal", at_once=2), threading.Event()
    under_way: list[int] = []

    def work() -> None:
        under_way.append(1)
        release.wait()

    running = [asyncio.create_task(calls.run("work", work, deadline=60)) for _ in range(5)]
    async with asyncio.timeout(60):
        while len(under_way) < 2:  # noqa: ASYNC110 (threads fill it)
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert len(under_way) == 2
    release.set()
    await asyncio.gather(*running)
    assert len(under_way) == 5


async def test_a_call_that_nobody_waits_for_any_more_comes_back_quietly() -> None:
    calls, release = Calls("metal"), threading.Event()
    running = asyncio.create_task(calls.run("define", release.wait, subject="a", deadline=60))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert calls.hanging == ["define"]
    release.set()
    await _all_back(calls)


async def _all_back(calls: Calls) -> None:
    async def are_back() -> bool:
        return not calls.hanging

    await eventually(are_back, PATIENCE)


class Error(Exception):
    def __init__(self, code: int, text: str = "no", number: int = -1) -> None:
        super().__init__(text)
        self._code, self._number = code, number

    def get_error_code(self) -> int:
        return self._code

    def get_int1(self) -> int:
        return self._number


@pytest.fixture(scope="module")
def libvirt() -> Any:
    if importlib.util.find_spec("libvirt") is None:
        pytest.skip("libvirt's Python binding is not installed (the extra kvm)")
    return importlib.import_module("libvirt")


def test_every_name_in_the_table_of_errors_is_libvirts(libvirt: Any) -> None:
    """But for those of newer or older versions than the one that is installed."""
    names = {each for family in problems.FAMILIES.values() for each in family}
    assert {each for each in names if not hasattr(libvirt, each)} <= {"VIR_ERR_NO_NETWORK_METADATA"}
    assert sum(len(family) for family in problems.FAMILIES.values()) == len(names), "each in one family"


def test_errors_fall_into_families(libvirt: Any) -> None:
    def family(error: Error) -> type[problems.Problem]:
        return type(problems.of(error, libvirt, "metal: define the domain"))

    assert family(Error(libvirt.VIR_ERR_NO_DOMAIN)) is Missing
    assert family(Error(libvirt.VIR_ERR_STORAGE_VOL_EXIST)) is Exists
    assert family(Error(libvirt.VIR_ERR_OPERATION_FAILED, "pool 'x' already exists with uuid y")) is Exists
    assert family(Error(libvirt.VIR_ERR_OPERATION_INVALID)) is WrongState
    assert family(Error(libvirt.VIR_ERR_AUTH_FAILED)) is Away
    assert family(Error(libvirt.VIR_ERR_INTERNAL_ERROR, "internal error: client socket is closed")) is Away
    assert family(Error(libvirt.VIR_ERR_SYSTEM_ERROR, "cannot write", errno.ENOSPC)) is NoSpace
    assert family(Error(libvirt.VIR_ERR_INTERNAL_ERROR, "qemu-img: No space left on device")) is NoSpace
    assert family(Error(libvirt.VIR_ERR_XML_ERROR)) is Failed
    assert family(Error(999_999)) is Failed, "one of a version to come"
    told = str(problems.of(Error(libvirt.VIR_ERR_XML_ERROR, "bad"), libvirt, "metal: define the domain"))
    assert told == "metal: define the domain: bad"

"""The store against a model of a few lines: whatever sequence of operations, both must agree on what can be seen."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from steelyard.kube.store import errors, shelf
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store
from steelyard.kube.store.watch import Subscription
from tests.soak import properties

T = TypeVar("T")
Event = tuple[int, str, bool]

KEYS = st.sampled_from(["a/1", "a/2", "a/3", "ab/1", "b/1"])
PREFIXES = st.sampled_from(["", "a", "a/", "b/", "a/1"])


def stamped(revision: int) -> bytes:
    return b"%d" % revision


class StoreAgainstModel(RuleBasedStateMachine):
    """The model: every event, and the state after each revision."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.store = self.run_(lambda: Store.open(self.folder / "s.db", fsync=False))
        self.events: list[Event] = []
        self.states: list[dict[str, int]] = [{}]
        self.compacted = 0

        self.seen: dict[int, Record] = {}
        """Every state that the store has shown, whatever became of it."""
        self.following = self.run_(self.follow)

    async def follow(self) -> Subscription:
        return self.store.watch("", self.store.revision)

    def run_(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.runner.run(make())

    def teardown(self) -> None:
        self.run_(self.store.close)
        self.runner.close()
        shutil.rmtree(self.folder)

    def record(self, key: str, *, deleted: bool) -> None:
        revision = len(self.states)
        state = dict(self.states[-1])
        if deleted:
            del state[key]
        else:
            state[key] = revision
        self.states.append(state)
        self.events.append((revision, key, deleted))

    @rule(keys=st.lists(KEYS, min_size=1, max_size=6))
    def put_concurrently(self, keys: list[str]) -> None:
        async def put() -> None:
            await asyncio.gather(*(self.store.put(key, stamped) for key in keys))

        self.run_(put)
        for key in keys:
            self.record(key, deleted=False)

    @rule(key=KEYS, offset=st.integers(-1, 1))
    def put_expecting(self, key: str, offset: int) -> None:
        actual = self.states[-1].get(key, 0)
        expect = max(0, actual + offset)

        async def put() -> None:
            await self.store.put(key, stamped, expect=expect)

        if expect == actual:
            self.run_(put)
            self.record(key, deleted=False)
        else:
            with pytest.raises(errors.Mismatch):
                self.run_(put)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        async def delete() -> None:
            await self.store.delete(key, encode=stamped)

        if key in self.states[-1]:
            self.run_(delete)
            self.record(key, deleted=True)
        else:
            with pytest.raises(errors.Mismatch):
                self.run_(delete)

    @rule(prefix=PREFIXES, back=st.integers(0, 12))
    def list_the_past(self, prefix: str, back: int) -> None:
        revision = max(0, len(self.states) - 1 - back)

        async def scan() -> list[tuple[str, int]]:
            return [(record.key, record.revision) for record in await self.store.scan_at(prefix, revision)]

        if revision < self.compacted:
            with pytest.raises(errors.Compacted):
                self.run_(scan)
        else:
            assert self.run_(scan) == under(prefix, self.states[revision])

    @rule(prefix=PREFIXES, back=st.integers(0, 12))
    def watch_from_the_past(self, prefix: str, back: int) -> None:
        revision = max(0, len(self.states) - 1 - back)
        expected = [event for event in self.events if event[0] > revision and event[1].startswith(prefix)]

        async def watch() -> list[Event]:
            subscription = self.store.watch(prefix, revision)
            async with asyncio.timeout(60):
                changes = [await anext(subscription) for _ in expected]
            subscription.close()
            for change in changes:
                shown = change.record or change.final
                assert shown is not None
                assert shown.value == stamped(change.revision)
                before = self.states[change.revision - 1].get(change.key)
                assert change.previous is None or change.previous.value == stamped(change.previous.revision)
                assert (change.previous.revision if change.previous else None) == before
            return [(change.revision, change.key, change.record is None) for change in changes]

        if revision < self.compacted:
            with pytest.raises(errors.Compacted):
                self.run_(watch)
        else:
            assert self.run_(watch) == expected

    @precondition(lambda self: len(self.states) > 1)
    @rule(back=st.integers(0, 8))
    def compact(self, back: int) -> None:
        before = len(self.states) - 1 - back
        self.run_(lambda: self.store.compact(before))
        self.compacted = max(self.compacted, before)

    @rule()
    def reopen(self) -> None:
        async def reopen() -> Store:
            await self.store.close()
            return await Store.open(self.folder / "s.db", fsync=False)

        self.seen.clear()
        self.store = self.run_(reopen)
        self.following = self.run_(self.follow)

    @invariant()
    def every_state_has_its_value(self) -> None:
        states: list[Record | None] = [*self.store.scan("")]
        for change in self.following.arrived():
            states += [change.record, change.previous, change.final]
        self.seen.update((record.revision, record) for record in states if record is not None)
        assert {revision: record.value for revision, record in self.seen.items()} == {
            revision: stamped(revision) for revision in self.seen
        }

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        for prefix in ("", "a/"):
            expected = under(prefix, self.states[-1])
            assert [(record.key, record.revision) for record in self.store.scan(prefix)] == expected
            assert self.store.count(prefix) == len(expected)
        assert self.store.revision == len(self.states) - 1
        assert self.store.compacted == self.compacted


def under(prefix: str, state: dict[str, int]) -> list[tuple[str, int]]:
    return sorted((key, revision) for key, revision in state.items() if key.startswith(prefix))


StoreAgainstModel.TestCase.settings = settings(
    max_examples=properties.examples(40),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStoreAgainstModel = StoreAgainstModel.TestCase


class StoreWithAShelfAgainstModel(StoreAgainstModel):
    """The same where every value is large, and hardly one stays in memory."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(shelf, "LARGE", 0)
        self._patch.setattr(shelf, "KEPT_BYTES", 2)
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        self._patch.undo()


StoreWithAShelfAgainstModel.TestCase.settings = StoreAgainstModel.TestCase.settings
TestStoreWithAShelfAgainstModel = StoreWithAShelfAgainstModel.TestCase

"""The cache against a simple model: own answers and the watch's events arrive in every order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime.cache import Cache, version_of
from steelyard.kube.runtime.keys import Key
from tests.soak import properties

names = st.sampled_from(["a", "b"])
sights = st.sampled_from(["observed", "observed late", "not observed"])


def made(name: str, uid: str, version: int) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(version)}}


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.cache.add_index("uid", lambda obj: [objects.uid(obj)])
        self.told: dict[Key, Object] = {}
        self.cache.on_change(self.hear)
        self.truth: dict[Key, Object] = {}
        self.revision = 0
        self.events: list[tuple[str, Object]] = []
        self.answers: list[Object] = []
        self.deletions: list[tuple[Key, str]] = []
        self.listing: tuple[list[Object], int] | None = None
        self.own: dict[Key, Object] = {}
        self.seen: dict[Key, int] = {}
        self.seen_gone: set[str] = set()

    def hear(self, old: Object | None, new: Object | None) -> None:
        key = Key.of(new or old or {})
        assert self.told.get(key) == old
        if new is None:
            del self.told[key]
        else:
            self.told[key] = new

    @rule(name=names, sight=sights)
    def write(self, name: str, sight: str) -> None:
        self.revision += 1
        key = Key("n", name)
        current = self.truth.get(key)
        uid = objects.uid(current) if current else f"u{self.revision}"
        obj = made(name, uid, self.revision)
        self.truth[key] = obj
        self.events.append(("MODIFIED" if current else "ADDED", obj))
        if sight == "observed":
            self.cache.observe(obj)
            found = self.cache.get(key)
            assert found is obj, "an own write is read at once"
            self.own[key] = obj
        elif sight == "observed late":
            self.answers.append(obj)

    @rule(name=names, sight=sights)
    def delete(self, name: str, sight: str) -> None:
        key = Key("n", name)
        current = self.truth.pop(key, None)
        self.own.pop(key, None)
        if current is None:
            return
        self.revision += 1
        self.events.append(("DELETED", made(name, objects.uid(current), self.revision)))
        if sight == "observed":
            cached = self.cache.get(key)
            if cached and objects.uid(cached) == objects.uid(current):
                self.seen_gone.add(objects.uid(current))
            self.cache.observe_deleted(key, objects.uid(current))
        elif sight == "observed late":
            self.deletions.append((key, objects.uid(current)))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answer_arrives(self, data: st.DataObject) -> None:
        self.cache.observe(self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1))))

    @precondition(lambda self: self.deletions)
    @rule(data=st.data())
    def deletion_arrives(self, data: st.DataObject) -> None:
        key, uid = self.deletions.pop(data.draw(st.integers(0, len(self.deletions) - 1)))
        self.cache.observe_deleted(key, uid)

    @precondition(lambda self: self.events and not self.listing)
    @rule(count=st.integers(1, 3))
    def events_arrive(self, count: int) -> None:
        for kind, obj in self.events[:count]:
            self.cache.apply_event(kind, obj)
        del self.events[:count]

    @rule()
    def list_is_asked_for(self) -> None:
        """No watch is open meanwhile; the next one begins after the list."""
        self.events.clear()
        self.listing = (list(self.truth.values()), self.revision)

    @precondition(lambda self: self.listing)
    @rule()
    def list_arrives(self) -> None:
        assert self.listing
        self.cache.replace(*self.listing)
        self.listing = None

    @rule()
    def everything_arrives(self) -> None:
        if self.listing:
            self.list_arrives()
        for kind, obj in self.events:
            self.cache.apply_event(kind, obj)
        self.events.clear()
        assert self.told == self.truth

    @invariant()
    def handlers_know_what_is_cached(self) -> None:
        assert self.told == {Key.of(obj): obj for obj in self.cache.list()}
        assert self.told == {Key.of(obj): obj for obj in self.cache.list("n")}
        for obj in self.told.values():
            assert self.cache.by_index("uid", objects.uid(obj)) == [obj]

    @invariant()
    def own_write_stays_until_its_object_goes(self) -> None:
        for key, obj in self.own.items():
            found = self.told.get(key)
            assert found is not None
            assert version_of(found) >= version_of(obj)

    @invariant()
    def what_was_seen_to_go_stays_away(self) -> None:
        assert not self.seen_gone & {objects.uid(obj) for obj in self.told.values()}

    @invariant()
    def no_name_goes_back_in_time(self) -> None:
        """Nor does an object, whose versions are among those of its name."""
        for key, obj in self.told.items():
            assert version_of(obj) >= self.seen.get(key, 0)
            self.seen[key] = version_of(obj)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=properties.examples(150), stateful_step_count=30, deadline=None)


def versions_shown(cache: Cache) -> list[int]:
    shown: list[int] = []
    cache.on_change(lambda old, new: shown.append(version_of(new) if new else 0))
    return shown


def test_an_own_write_that_a_namesake_followed_does_not_come_back_in_an_older_state() -> None:
    """Two own writes are answered after somebody deleted the object, wrote it again, and deleted that too."""
    cache = Cache()
    shown = versions_shown(cache)
    cache.observe(made("a", "u4", 5))
    cache.observe(made("a", "u7", 7))
    cache.observe_deleted(Key("n", "a"), "u7")
    cache.observe(made("a", "u4", 4))
    for kind, uid, version in (
        ("ADDED", "u4", 4),
        ("MODIFIED", "u4", 5),
        ("DELETED", "u4", 6),
        ("ADDED", "u7", 7),
        ("DELETED", "u7", 8),
        ("ADDED", "u9", 9),
    ):
        cache.apply_event(kind, made("a", uid, version))
    assert shown == [5, 7, 0, 9]


def test_a_list_from_before_an_own_write_does_not_make_its_deletion_forgotten() -> None:
    cache = Cache()
    shown = versions_shown(cache)
    cache.observe(made("a", "u1", 1))
    cache.observe_deleted(Key("n", "a"), "u1")
    cache.replace([], 0)
    cache.apply_event("ADDED", made("a", "u1", 1))
    cache.apply_event("DELETED", made("a", "u1", 2))
    assert shown == [1, 0]


@pytest.mark.parametrize("revision", [5, 9], ids=["as the list was taken", "later"])
def test_what_a_list_shows_to_be_gone_leaves_nothing_behind(revision: int) -> None:
    cache = Cache()
    cache.observe(made("a", "u1", 5))
    cache.observe_deleted(Key("n", "a"), "u1")
    cache.replace([], revision)
    assert cache.remembered == 0

"""The cache against a simple model: own answers and the watch's events arrive in every order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime.cache import Cache, version_of
from steelyard.kube.runtime.keys import Key

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
        self.seen: dict[str, int] = {}
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
    def no_object_goes_back_in_time(self) -> None:
        for obj in self.told.values():
            uid = objects.uid(obj)
            assert version_of(obj) >= self.seen.get(uid, 0)
            self.seen[uid] = version_of(obj)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)

"""Objects made ahead: filled, known again, and served as soon as they are laid."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.space import premade
from steelyard.kube.server.space.premade import Premade
from tests.kube.server.bench import WIDGETS, Bench, widget_definition

PLACE = "apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
UID = "0b1e4b4c-6c7e-4f0e-9a53-000000000001"
MOMENT = "2026-01-02T03:04:05Z"
GAPS = (premade.UID, premade.MOMENT, premade.REVISION, premade.DIGEST)
TEXTS = (
    st.text(st.sampled_from('<>uidmoentrvsg"\\ é'))
    | st.sampled_from(GAPS)
    | st.sampled_from([f"a {each}" for each in GAPS])
)


@given(st.dictionaries(TEXTS.filter(lambda name: name not in GAPS), TEXTS, max_size=6), st.integers(1, 10**12))
def test_what_fills_the_gaps_is_all_that_differs(fields: dict[str, str], revision: int) -> None:
    made = Premade("p", orjson.dumps(fields))
    stored = made.filled(UID, MOMENT, revision)
    values = {premade.UID: UID, premade.MOMENT: MOMENT, premade.REVISION: str(revision)}
    for name, text in orjson.loads(stored).items():
        given_text = fields[name]
        if given_text == premade.DIGEST:
            assert len(text) == premade.DIGITS
        else:
            assert text == values.get(given_text, given_text)
    assert made.is_what(stored)


@given(st.dictionaries(TEXTS, TEXTS, max_size=6), st.binary(min_size=1, max_size=3), st.data())
def test_a_change_is_seen(fields: dict[str, str], other: bytes, data: st.DataObject) -> None:
    made = Premade("p", orjson.dumps({name: text for name, text in fields.items() if not {name, text} & set(GAPS)}))
    stored = made.filled(UID, MOMENT, 1)
    at = data.draw(st.integers(0, len(stored)))
    changed = stored[:at] + other + stored[at + len(other) :]
    assert made.is_what(changed) == (changed == stored)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param(premade.UID, '"a"', id="no UID"),
        pytest.param(premade.MOMENT, '"yesterday"', id="no moment"),
        pytest.param(premade.REVISION, '"0"', id="no revision"),
        pytest.param(premade.REVISION, '"1","b":"2"', id="further fields in place of a gap"),
        pytest.param(premade.DIGEST, '"0123456789abcdeg"', id="no digest"),
    ],
)
def test_a_gap_takes_only_what_belongs_there(text: str, stored: str) -> None:
    assert not Premade("p", orjson.dumps({"a": text})).is_what(f'{{"a":{stored}}}'.encode())


async def test_a_kind_that_was_laid_is_served_as_one_that_was_applied(bench: Bench) -> None:
    made = await _made(bench)
    await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    others = (await bench.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]
    for each in others:
        await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, objects.name(each))
    assert await bench.api.lay([made])
    again = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    assert again["status"]["acceptedNames"]["kind"] == "Widget"
    widget: Object = {
        "apiVersion": WIDGETS.api_version,
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"size": 3},
    }
    assert objects.name(await bench.create(WIDGETS, widget)) == "a"
    revision = bench.store.revision
    assert await bench.api.lay([made])
    assert bench.store.revision == revision


async def test_nothing_is_laid_over_what_there_is(bench: Bench) -> None:
    made = await _made(bench)
    await bench.patch(
        CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com", {"metadata": {"labels": {"changed": "yes"}}}, patch="merge"
    )
    revision = bench.store.revision
    assert not await bench.api.lay([made])
    elsewhere = Premade(made.place.replace("widgets", "gadgets"), made.text)
    assert not await bench.api.lay([elsewhere])
    assert bench.store.revision == revision


async def _made(bench: Bench) -> Premade:
    """The definition of widgets, as the server stores it."""
    assert widget_definition()["metadata"]["name"] == "widgets.example.com"
    (record,) = bench.store.scan(f"main/{PLACE}")
    obj = orjson.loads(record.value)
    text = record.value.replace(objects.uid(obj).encode(), premade.UID.encode())
    text = text.replace(f'"resourceVersion":"{record.revision}"'.encode(), b'"resourceVersion":"<revision>"')
    return Premade(PLACE, text.replace(obj["metadata"]["creationTimestamp"].encode(), premade.MOMENT.encode()))

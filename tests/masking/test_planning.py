"""What happens to each column of a database, and what is refused: decided without any server."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.masking.catalogue import Catalogue, Column, Type, Unique
from steelyard.masking.planning import plan
from steelyard.masking.rules import MaskingRules
from tests.masking.databases import actions, check, column, planned, refers, said, surrogate, table, type_of

EVERY_TYPE = ("text", "jsonb", "text[]", "bytea", "numeric", "date", "integer", "uuid", "inet", "point", "interval")


def rules(**columns: Any) -> dict[str, Any]:
    return {"tables": {"people": {"columns": {name: _rule(rule) for name, rule in columns.items()}}}}


def _rule(rule: Any) -> dict[str, Any]:
    return {"action": rule} if isinstance(rule, str) else rule


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_a_column_without_a_rule_refuses_the_copy_whatever_its_type(name: str) -> None:
    found = planned(table("people", column("x", name)), rules={})
    assert said(found) == [
        f"public.people.x: has no rule ({name}). Say what happens to it: tables.people.columns.x.action."
    ]


def test_surrogate_keys_what_refers_to_them_and_booleans_are_kept_unasked() -> None:
    people = table("people", surrogate(), column("is_active", "boolean"), key=("id",))
    tokens = table("tokens", column("id", "uuid", default="gen_random_uuid()"), key=("id",))
    orders = table(
        "orders",
        column("id", "integer", default="nextval('orders_id_seq'::regclass)"),
        column("person", "bigint"),
        key=("id",),
        foreign_keys=(refers("fk", ("person",), "public.people", ("id",)),),
    )
    found = planned(people, tokens, orders, rules={})
    assert not found.refusals
    assert actions(found, "public.orders") == {"id": "keep", "person": "keep"}


def test_a_number_that_people_give_out_is_no_surrogate_key() -> None:
    found = planned(table("people", column("passport", "integer", not_null=True), key=("passport",)), rules={})
    assert "has no rule" in said(found)[0]


def test_unclassified_columns_can_be_kept_or_emptied_when_the_rules_say_so() -> None:
    people = table("people", column("a"), column("b", not_null=True))
    assert actions(planned(people, rules={"unclassified": "keep"}), "public.people") == {"a": "keep", "b": "keep"}
    emptied = planned(people, rules={"unclassified": "null"})
    assert said(emptied) == ["public.people.b: must have a value (NOT NULL). Use constant or hash."]


def test_a_tables_own_word_on_unclassified_columns_wins() -> None:
    found = planned(
        table("people", column("a")), table("log", column("b")), rules={"tables": {"log": {"unclassified": "keep"}}}
    )
    assert [refusal.table for refusal in found.refusals] == ["public.people"]


def test_all_refusals_come_at_once() -> None:
    found = planned(table("a", column("x"), column("y")), table("b", column("z")), rules={"tables": {"c": {}}})
    assert len(found.refusals) == 4


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"tables": {"peple": {}}}, "peple: there is no such table. Did you mean people? Correct its name."),
        (
            {"tables": {"people": {"columns": {"emial": {"action": "hash"}}}}},
            "people.emial: there is no such column. Did you mean email? Correct its name.",
        ),
        ({"tables": {"zzz_*": {}}}, "zzz_*: there is no such table. Correct its name."),
    ],
    ids=["a table", "a column", "a pattern that fits nothing"],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(written: dict[str, Any], told: str) -> None:
    found = planned(table("people", column("email")), rules={"unclassified": "keep", **written})
    assert said(found) == [told]


def test_patterns_name_many_and_the_exact_name_wins() -> None:
    found = planned(
        table("sales.people", column("created_at", "date"), column("seen_at", "date")),
        rules={"tables": {"sales.*": {"columns": {"*_at": {"action": "keep"}, "seen_at": {"action": "shiftDates"}}}}},
    )
    assert actions(found, "sales.people") == {"created_at": "keep", "seen_at": "shiftDates"}


def test_a_reference_is_masked_like_what_it_refers_to() -> None:
    people = table("people", column("email", not_null=True), key=("email",))
    orders = table(
        "orders",
        column("buyer", type_of("character varying", length=40)),
        foreign_keys=(refers("fk", ("buyer",), "public.people", ("email",)),),
    )
    found = planned(people, orders, rules=rules(email="hash"))
    assert not found.refusals
    one, other = found.table("public.people").columns[0].mask, found.table("public.orders").columns[0].mask
    assert (one.action, one.length, one.unique) == (other.action, other.length, other.unique) == ("hash", 40, True)


def test_rules_that_contradict_each_other_along_a_foreign_key_are_refused() -> None:
    people = table("people", column("email", not_null=True), key=("email",))
    orders = table("orders", column("buyer"), foreign_keys=(refers("fk", ("buyer",), "public.people", ("email",)),))
    found = planned(
        people,
        orders,
        rules={
            "tables": {
                "people": {"columns": {"email": {"action": "fakeEmail"}}},
                "orders": {"columns": {"buyer": {"action": "hash"}}},
            }
        },
    )
    assert all("ties columns with different rules" in each for each in said(found))
    assert {refusal.table for refusal in found.refusals} == {"public.people", "public.orders"}


def test_composite_keys_cycles_and_references_to_oneself_settle() -> None:
    one = table(
        "one",
        column("a"),
        column("b"),
        column("boss_a"),
        column("boss_b"),
        key=("a", "b"),
        foreign_keys=(
            refers("self", ("boss_a", "boss_b"), "public.one", ("a", "b")),
            refers("there", ("a", "b"), "public.two", ("c", "d")),
        ),
    )
    two = table(
        "two",
        column("c"),
        column("d"),
        key=("c", "d"),
        foreign_keys=(refers("back", ("c", "d"), "public.one", ("a", "b")),),
    )
    said_once = {"tables": {"one": {"columns": {"a": {"action": "hash"}, "b": {"action": "fakeName"}}}}}
    found = planned(one, two, rules=said_once)
    assert not found.refusals
    assert actions(found, "public.one") == {"a": "hash", "b": "fakeName", "boss_a": "hash", "boss_b": "fakeName"}
    assert actions(found, "public.two") == {"c": "hash", "d": "fakeName"}


def test_a_reference_may_be_cut_without_touching_what_it_refers_to() -> None:
    to_oneself = refers("fk", ("boss",), "public.people", ("id",))
    people = table("people", surrogate(), column("boss", "bigint"), key=("id",), foreign_keys=(to_oneself,))
    found = planned(people, rules=rules(boss="null"))
    assert not found.refusals
    assert actions(found, "public.people") == {"id": "keep", "boss": "null"}


LONG = type_of("character varying", length=80)
SHORT = type_of("character varying", length=8)
FITS = [
    ("a fake in a number", column("x", "integer"), "fakeName", "fakeName makes text"),
    ("a shift of a text", column("x"), "shiftDates", "shiftDates is for dates"),
    ("a hash of a date", column("x", "date"), "hash", "there is no hash"),
    ("a hash of a point", column("x", "point"), "hash", "there is no hash"),
    ("an email in eight characters", column("x", SHORT), "fakeEmail", "has room for 8 characters; fakeEmail needs 22"),
    (
        "a long constant",
        column("x", SHORT),
        {"action": "constant", "value": "too long for it"},
        "the constant is longer",
    ),
    ("a constant without value", column("x"), "constant", "no value is given"),
    ("a value without constant", column("x"), {"action": "hash", "value": "y"}, "which hash does not take"),
    ("days without dates", column("x"), {"action": "hash", "days": 3}, "which hash does not take"),
    ("null where there must be a value", column("x", not_null=True), "null", "must have a value"),
    (
        "null in a domain that forbids it",
        column("x", Type("text", "base", True, "S", not_null=True)),
        "null",
        "NOT NULL",
    ),
    ("a computed column", column("x", generated=True), "hash", "is computed from other columns"),
]


@pytest.mark.parametrize(("which", "action", "told"), [case[1:] for case in FITS], ids=[case[0] for case in FITS])
def test_what_does_not_fit_a_column_is_refused(which: Column, action: Any, told: str) -> None:
    found = planned(table("people", which), rules=rules(x=action))
    assert told in " ".join(said(found))


UNIQUE = [
    ("a constant", column("x"), {"action": "constant", "value": "y"}, "wants different values"),
    ("a hash with room", column("x", LONG), "hash", None),
    ("a hash without room", column("x", type_of("bpchar", length=2)), "hash", "too few different values"),
    ("integers", column("x", "integer"), "hash", None),
    ("a name with a number", column("x"), "fakeName", None),
    ("a name without room for one", column("x", SHORT), "fakeName", "needs 18 here"),
    ("shuffled", column("x"), "shuffle", None),
    ("shifted by the same days", column("x", "date"), "shiftDates", None),
    ("emptied", column("x"), "null", None),
    ("an enum", column("x", Type("public.mood", "enum", False, "E", labels=3)), "hash", "too few different values"),
]


@pytest.mark.parametrize(("which", "action", "told"), [case[1:] for case in UNIQUE], ids=[case[0] for case in UNIQUE])
def test_unique_columns_stay_unique_or_are_refused(which: Column, action: Any, told: str | None) -> None:
    found = planned(table("people", which, uniques=(Unique("u", ("x",)),)), rules=rules(x=action))
    if told is None:
        assert not found.refusals
    else:
        assert told in " ".join(said(found))


def test_a_constant_is_fine_in_a_key_whose_other_columns_are_unique_by_themselves() -> None:
    people = table("people", surrogate(), column("x"), key=("id",), uniques=(Unique("u", ("id", "x")),))
    assert not planned(people, rules=rules(x={"action": "constant", "value": "y"})).refusals


def test_nulls_that_count_as_equal_are_refused() -> None:
    people = table("people", column("x"), uniques=(Unique("u", ("x",), nulls_distinct=False),))
    assert "null may repeat them" in said(planned(people, rules=rules(x="null")))[0]


def test_a_unique_index_over_lower_case_takes_what_is_lower_case_already() -> None:
    index = Unique("u", ("x",), expression="CREATE UNIQUE INDEX u ON public.people USING btree (lower((x)::text))")
    people = table("people", column("x"), uniques=(index,))
    assert not planned(people, rules=rules(x="fakeEmail")).refusals
    assert "over an expression" in said(planned(people, rules=rules(x="fakeName")))[0]


def test_exclusion_constraints_and_bounds_of_partitions_want_their_columns_kept() -> None:
    excluded = table("people", column("x"), uniques=(Unique("e", ("x",), exclusion=True),))
    assert "exclusion constraint" in said(planned(excluded, rules=rules(x="hash")))[0]
    part = table("part", column("x"), root="public.people", partitioned_by="list", partition_key=("x",))
    whole = table("people", column("x"), kind="partitioned")
    assert "decides in which partition" in said(planned(whole, part, rules=rules(x="hash")))[0]


def test_rows_of_a_masked_hash_partition_go_through_the_table_above() -> None:
    part = table("part", column("x"), root="public.people", partitioned_by="hash", partition_key=("x",))
    whole = table("people", column("x"), kind="partitioned")
    found = planned(whole, part, rules=rules(x="hash"))
    assert not found.refusals
    assert found.table("public.part").into == '"public"."people"'


def test_dates_of_a_row_move_together_and_dates_in_keys_all_alike() -> None:
    dates = (column("born", "date"), column("died", "date"), column("k", "date"))
    people = table("people", surrogate(), *dates, key=("id",), uniques=(Unique("u", ("k",)),))
    found = planned(
        people,
        rules=rules(
            born={"action": "shiftDates", "days": 9}, died="shiftDates", k={"action": "shiftDates", "days": 99}
        ),
    )
    masks = {each.column.name: each.mask for each in found.table("public.people").columns}
    assert (masks["born"].days, masks["died"].days) == (9, 9)
    assert masks["born"].row_key == masks["died"].row_key == ("id",)
    assert masks["k"].uniform
    assert masks["k"].days == 99


def test_checks_on_masked_columns_are_to_be_proven_and_those_with_own_functions_refused() -> None:
    people = table(
        "people", column("x"), column("y"), checks=(check("long", "(length(x) > 3)", "x"), check("y", "y", "y"))
    )
    found = planned(people, rules=rules(x="hash", y="keep"))
    assert [proof.check.name for proof in found.proofs] == ["long"]
    own = table("people", column("x"), checks=(check("own", "public.f(x)", "x", does_more=True),))
    assert "calls functions that are not tried on the source" in said(planned(own, rules=rules(x="hash")))[0]


def test_a_table_can_be_left_empty_unless_somebody_refers_to_it() -> None:
    log = table("log", column("x"), column("y", "jsonb"))
    empty = planned(log, rules={"tables": {"log": {"rows": "none"}}})
    assert not empty.refusals
    assert not empty.table("public.log").copied
    people = table("people", surrogate(), key=("id",))
    orders = table("orders", column("p", "bigint"), foreign_keys=(refers("fk", ("p",), "public.people", ("id",)),))
    found = planned(people, orders, rules={"tables": {"people": {"rows": "none"}}})
    assert "of that no rows are copied" in said(found)[0]


def test_foreign_tables_are_refused_until_they_are_left_out() -> None:
    far = table("far", column("x"), kind="foreign")
    assert "on another server" in said(planned(far, rules={"unclassified": "keep"}))[0]
    assert not planned(far, rules={"tables": {"far": {"rows": "none"}}}).refusals


def test_comments_and_large_objects_are_left_out_and_said_to_be() -> None:
    found = plan(Catalogue((), comments=2, large_objects=1), MaskingRules())
    assert [note.split(":")[0] for note in found.notes] == ["2 comments are left out", "1 large objects are left out"]


@pytest.mark.parametrize("action", ["hash", "fakeEmail", "shuffle"])
def test_a_constant_or_a_shuffle_is_no_way_to_mask_what_a_key_refers_to(action: str) -> None:
    people = table("people", column("email", not_null=True), key=("email",))
    orders = table("orders", column("buyer"), foreign_keys=(refers("fk", ("buyer",), "public.people", ("email",)),))
    refused = said(planned(people, orders, rules=rules(email=action)))
    assert bool(refused) == (action == "shuffle")

"""From what a database has and what its user said to what happens to each column, or to all reasons why nothing may.

Pure. The rules it keeps:
- Every column without a rule refuses the copy, whatever its type, unless the rules say otherwise. Only surrogate keys
  (numbers and UUIDs that the database gives out itself, in a primary key, and what refers to them) and booleans are
  kept unasked.
- Columns that a foreign key ties together have one action and one mask, so that joins match; a contradiction is
  refused.
- Masked values are unique, not NULL, short enough and of the right form where the column wants that. What depends on
  the rows (checks, domains) is listed in `Plan.proofs` for `proving.py`; what cannot be decided is refused with what
  to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final

from steelyard.frozen import frozen
from steelyard.masking import expressions, fitting, keys, naming
from steelyard.masking.catalogue import Catalogue, Check, Column, Table
from steelyard.masking.expressions import Mask
from steelyard.masking.keys import Place
from steelyard.masking.rules import DEFAULT_DAYS, Action, ColumnRule, MaskingRules, TableRules

KEEP: Final = ColumnRule(action="keep")
NULL: Final = ColumnRule(action="null")


@frozen
class Refusal:
    """One reason why the copy is not made."""

    table: str | None
    column: str | None
    reason: str
    instead: str = ""
    """What to write or do."""

    def __str__(self) -> str:
        where = ".".join(filter(None, (self.table, self.column)))
        return f"{where}: {self.reason}{f' {self.instead}' if self.instead else ''}" if where else self.reason


@frozen
class ColumnPlan:
    column: Column
    mask: Mask
    reason: str
    """Why this is done: a rule, a key, a default."""
    acknowledged: bool = False

    @property
    def is_masked(self) -> bool:
        return self.mask.action != "keep"


@frozen
class Proof:
    """A condition that masked rows have to fulfil; tried on the source before anything is copied."""

    table: str
    column: str | None
    """For a domain's condition, which speaks of VALUE."""
    check: Check


@frozen
class TablePlan:
    table: Table
    columns: tuple[ColumnPlan, ...]
    """Without generated ones, which the copy computes itself."""
    copied: bool = True
    into: str = ""
    """Schema-qualified and quoted: the table itself, or the partitioned one above it where masked keys move rows."""
    binary: bool = True

    def masked_columns(self) -> tuple[ColumnPlan, ...]:
        return tuple(each for each in self.columns if each.is_masked)


@frozen
class Plan:
    tables: tuple[TablePlan, ...]
    refusals: tuple[Refusal, ...]
    proofs: tuple[Proof, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What a user should know although it is no reason to refuse."""

    def table(self, name: str) -> TablePlan:
        return next(each for each in self.tables if each.table.name == name)


@frozen
class _Group:
    """What columns have in common that a foreign key or a partitioned table ties together; often it is only one."""

    settled: tuple[ColumnRule, str] | None
    tied: bool
    unique: bool
    length: int | None
    bits: int
    alike: bool
    """Their types make the same of the same value."""


def plan(catalogue: Catalogue, rules: MaskingRules) -> Plan:
    """Everything at once: the refusals are complete, and with none the plan can be carried out."""
    return _Planner(catalogue, rules).plan()


class _Planner:
    def __init__(self, catalogue: Catalogue, rules: MaskingRules) -> None:
        self._tables = [table for table in catalogue.tables if not table.from_extension]
        self._by_name = {table.name: table for table in self._tables}
        self._catalogue = catalogue
        self._rules = rules
        self._referenced = keys.referenced(self._tables)
        self._in_keys = self._referenced | keys.referring(self._tables)
        self._refusals: list[Refusal] = []
        self._proofs: list[Proof] = []

    def plan(self) -> Plan:
        self._refuse_misspelt()
        chosen = self._chosen()
        self._refuse_empty_targets()
        groups: dict[Place, _Group] = {}
        for places in keys.ties(self._tables):
            group = self._group(places, self._settled(places, chosen))
            groups |= dict.fromkeys(places, group)
        tables = [self._table(table, chosen, groups) for table in self._tables]
        seen: dict[str, Refusal] = {str(refusal): refusal for refusal in self._refusals}
        return Plan(tuple(tables), tuple(seen.values()), tuple(self._proofs), tuple(self._notes()))

    # Which rule a column has.

    def _chosen(self) -> dict[Place, tuple[ColumnRule, str]]:
        found: dict[Place, tuple[ColumnRule, str]] = {}
        for table in self._tables:
            rules = self._rules_of(table)
            for column in table.columns:
                rule = naming.matching(rules.columns, column.name) if rules else None
                if rule is None:
                    continue
                if column.generated:
                    self._refuse(table, column, "is computed from other columns.", "Take its rule away; mask those.")
                    continue
                found[table.name, column.name] = (rule, "as its rule says")
                self._check_rule(table, column, rule)
        return found

    def _rules_of(self, table: Table) -> TableRules | None:
        """A partition's own, else those of the table that is partitioned."""
        own = naming.matching(self._rules.tables, *naming.spellings(table.name))
        if own is None and table.root is not None:
            return naming.matching(self._rules.tables, *naming.spellings(table.root))
        return own

    def _check_rule(self, table: Table, column: Column, rule: ColumnRule) -> None:
        if rule.action == "constant":
            if rule.value is None:
                self._refuse(table, column, "is to be a constant, but no value is given.", "Write `value: ...`.")
            elif "\0" in rule.value:
                self._refuse(table, column, "has a constant with a NUL character.", "Write another `value`.")
        elif rule.value is not None:
            self._refuse(
                table, column, f"has a value, which {rule.action} does not take.", "Use constant, or take it away."
            )
        if rule.days is not None and rule.action != "shiftDates":
            self._refuse(
                table, column, f"has days, which {rule.action} does not take.", "Use shiftDates, or take it away."
            )

    def _refuse_misspelt(self) -> None:
        known = [spelling for table in self._tables for spelling in naming.spellings(table.name)]
        for written, rules in self._rules.tables.items():
            matched = [
                table
                for table in self._tables
                if any(naming.fits(written, each) for each in naming.spellings(table.name))
            ]
            if not matched:
                self._refusals.append(
                    Refusal(
                        written, None, f"there is no such table.{naming.nearest(written, known)}", "Correct its name."
                    )
                )
                continue
            names = [column.name for table in matched for column in table.columns]
            for name in rules.columns:
                if not any(naming.fits(name, each) for each in names):
                    reason = f"there is no such column.{naming.nearest(name, names)}"
                    self._refusals.append(Refusal(written, name, reason, "Correct its name."))

    def _refuse_empty_targets(self) -> None:
        for table in self._tables:
            for key in table.foreign_keys if self._is_copied(table) else ():
                if key.table in self._by_name and not self._is_copied(self._by_name[key.table]):
                    reason = f"refers to {key.table} by {key.name}, and of that no rows are copied."
                    self._refuse(table, None, reason, "Copy its rows as well, or write `rows: none` here too.")

    def _is_copied(self, table: Table) -> bool:
        rules = self._rules_of(table)
        return rules is None or rules.rows != "none"

    # What columns of one key agree on.

    def _settled(
        self, group: Sequence[Place], chosen: dict[Place, tuple[ColumnRule, str]]
    ) -> tuple[ColumnRule, str] | None:
        """The one rule of columns that foreign keys tie together; None where nobody says anything."""
        said: dict[ColumnRule, list[Place]] = {}
        for place in group:
            if place not in chosen:
                continue
            rule = chosen[place][0]
            # A reference may be cut, or dealt out anew, without touching what it refers to.
            if rule.action in ("null", "shuffle") and place not in self._referenced:
                continue
            said.setdefault(ColumnRule(action=rule.action, value=rule.value, days=rule.days), []).append(place)
        if len(said) > 1:
            places = ", ".join(
                f"{table}.{column} {rule.action}" for rule, where in said.items() for table, column in where
            )
            for table, column in (where[0] for where in said.values()):
                self._refusals.append(
                    Refusal(
                        table,
                        column,
                        f"a foreign key (or a partition) ties columns with different rules: {places}.",
                        "Give them one.",
                    )
                )
        if said:
            rule, where = next(iter(said.items()))
            table, column = where[0]
            return rule, f"like {table}.{column}, to which a foreign key ties it"
        if any(self._is_surrogate(place) for place in group):
            return KEEP, "a surrogate key, or refers to one"
        return None

    def _is_surrogate(self, place: Place) -> bool:
        table = self._by_name[place[0]]
        column = table.column(place[1])
        primary = next((unique for unique in table.uniques if unique.primary), None)
        if primary is None or column.name not in primary.columns:
            return False
        given = (column.default or "").lower()
        kind = expressions.family(column.type)
        if kind == "integer":
            return column.identity or given.startswith("nextval(")
        return kind == "uuid" and ("gen_random_uuid(" in given or "uuid_generate_" in given or "uuidv" in given)

    # What happens to a table's columns.

    def _table(
        self,
        table: Table,
        chosen: dict[Place, tuple[ColumnRule, str]],
        groups: dict[Place, _Group],
    ) -> TablePlan:
        copied = self._is_copied(table) and table.kind == "table"
        if table.kind == "foreign" and self._is_copied(table):
            reason = "is a foreign table: its rows are on another server."
            self._refuse(table, None, reason, "Leave it out with `rows: none`.")
        columns: list[ColumnPlan] = []
        for column in table.columns:
            if column.generated:
                continue
            place = (table.name, column.name)
            group = groups.get(place) or self._group((place,), None)
            rule, reason = self._decided(table, column, chosen.get(place), group.settled)
            mask = self._mask(table, column, rule, group)
            columns.append(ColumnPlan(column, mask, reason, bool(rule.acknowledged)))
        columns = _together(columns)
        if self._is_copied(table):
            for refusal in fitting.problems(table, {each.column.name: each.mask for each in columns}):
                self._refusals.append(Refusal(table.name, *refusal))
        if copied:
            self._ask_for_proofs(table, columns)
        return TablePlan(
            table,
            tuple(columns),
            copied,
            self._into(table, columns),
            all(fitting.is_portable(each.type) for each in table.columns),
        )

    def _decided(
        self,
        table: Table,
        column: Column,
        own: tuple[ColumnRule, str] | None,
        tied: tuple[ColumnRule, str] | None,
    ) -> tuple[ColumnRule, str]:
        if own is not None:
            self._refuse_cut_ties(table, column, own[0], tied[0] if tied else None)
            return own
        if tied is not None:
            return tied
        if self._is_surrogate((table.name, column.name)):
            return KEEP, "a surrogate key"
        if expressions.family(column.type) == "boolean" and column.type.element is None:
            return KEEP, "a boolean"
        rules = self._rules_of(table)
        default = (rules.unclassified if rules else None) or self._rules.unclassified
        if default == "keep":
            return KEEP, "unclassified, and the rules say to keep such columns"
        if default == "null":
            return NULL, "unclassified, and the rules say to empty such columns"
        # What a partitioned table was told goes for its partitions.
        if self._is_copied(table) and table.root is None:
            spelling = naming.spellings(table.name)[-1]
            self._refuse(
                table,
                column,
                f"has no rule ({column.type.name}).",
                f"Say what happens to it: tables.{spelling}.columns.{column.name}.action.",
            )
        return KEEP, "unclassified"

    def _refuse_cut_ties(self, table: Table, column: Column, rule: ColumnRule, tied: ColumnRule | None) -> None:
        place = (table.name, column.name)
        if place not in self._in_keys:
            return
        if rule.action == "constant":
            reason = "is part of a foreign key; a constant would join what does not belong together."
            self._refuse(table, column, reason, "Use null, hash or keep.")
        elif rule.action == "shuffle" and place in self._referenced:
            self._refuse(
                table, column, "is what a foreign key refers to; shuffled, joins would lie.", "Use hash or keep."
            )
        elif rule.action == "shuffle" and tied is not None and tied.action != "keep":
            reason = f"is shuffled, but what it refers to is not kept ({tied.action})."
            self._refuse(table, column, reason, "Take its rule away; it then follows what it refers to.")

    def _group(self, places: Sequence[Place], settled: tuple[ColumnRule, str] | None) -> _Group:
        columns = [self._by_name[name].column(other) for name, other in places]
        lengths = [each.type.element.length if each.type.element else each.type.length for each in columns]
        return _Group(
            settled,
            tied=any(place in self._in_keys for place in places),
            unique=any(other in each.columns for name, other in places for each in self._by_name[name].uniques),
            length=min((length for length in lengths if length is not None), default=None),
            bits=min(expressions.bits(each.type) for each in columns),
            alike=len({_likeness(each) for each in columns}) == 1,
        )

    def _mask(self, table: Table, column: Column, rule: ColumnRule, group: _Group) -> Mask:
        primary = next((each.columns for each in table.uniques if each.primary), ())
        if (
            group.tied
            and not group.alike
            and rule.action in ("hash", "fakeName", "fakeEmail", "fakePhone", "fakeAddress", "shiftDates")
        ):
            reason = "is tied by a foreign key to a column of another type, for which masked values would differ."
            self._refuse(table, column, reason, "Use keep for both.")
        is_key = group.unique or group.tied
        return Mask(
            rule.action,
            column.type,
            group.unique,
            group.length,
            group.bits,
            rule.value,
            rule.days or DEFAULT_DAYS,
            uniform=is_key,
            row_key=() if is_key else tuple(primary),
        )

    def _into(self, table: Table, columns: Iterable[ColumnPlan]) -> str:
        moves = any(
            each.is_masked and (table.partition_expressions or each.column.name in table.partition_key)
            for each in columns
        )
        target = self._by_name[table.root] if moves and table.root is not None else table
        return expressions.qualified(target.schema, target.relation)

    def _ask_for_proofs(self, table: Table, columns: Iterable[ColumnPlan]) -> None:
        masked = {each.column.name: each for each in columns if each.is_masked}
        for check in table.checks:
            touched = [name for name in check.columns if name in masked]
            if touched and check.does_more:
                self._refuse_own_code(table, masked[touched[0]], f"check constraint {check.name}")
            elif touched:
                self._proofs.append(Proof(table.name, None, check))
        for name, each in masked.items():
            element = each.column.type.element
            for check in (*each.column.type.checks, *(element.checks if element else ())):
                if check.does_more:
                    self._refuse_own_code(
                        table, each, f"check {check.name} of the domain {each.column.type.domains[:1]}"
                    )
                elif each.column.type.checks:
                    self._proofs.append(Proof(table.name, name, check))

    def _refuse_own_code(self, table: Table, plan: ColumnPlan, what: str) -> None:
        if plan.mask.action != "shuffle" or "domain" not in what:
            reason = f"is part of the {what}, which calls functions that are not tried on the source."
            self._refuse(table, plan.column, reason, "Use keep, or drop the constraint.")

    def _notes(self) -> Iterable[str]:
        if self._catalogue.comments:
            yield f"{self._catalogue.comments} comments are left out: they may quote values."
        if self._catalogue.large_objects:
            yield f"{self._catalogue.large_objects} large objects are left out: nobody can say what is in them."

    def _refuse(self, table: Table, column: Column | None, reason: str, instead: str) -> None:
        self._refusals.append(Refusal(table.name, column.name if column else None, reason, instead))


def _likeness(column: Column) -> str:
    kind = expressions.family(column.type)
    if kind in ("text", "integer") and not expressions.is_case_insensitive(column.type):
        return f"{kind} {column.type.element is not None}"
    return f"{column.type.name} {column.type.precision} {column.type.scale}"


def _together(columns: list[ColumnPlan]) -> list[ColumnPlan]:
    """All dates of a row move by the same number of days, so by the smallest bound among them."""
    bounds = [each.mask.days for each in columns if each.mask.action == "shiftDates" and not each.mask.uniform]
    return [
        ColumnPlan(each.column, _with_days(each.mask, min(bounds)), each.reason, each.acknowledged)
        if each.mask.action == "shiftDates" and not each.mask.uniform
        else each
        for each in columns
    ]


def _with_days(mask: Mask, days: int) -> Mask:
    return Mask(
        mask.action, mask.type, mask.unique, mask.length, mask.bits, mask.value, days, mask.uniform, mask.row_key
    )


ACTIONS_THAT_HIDE: Final[frozenset[Action]] = frozenset(
    {"null", "constant", "hash", "fakeName", "fakeEmail", "fakePhone", "fakeAddress"}
)
"""After these no clear value may be found in the column; shifted and shuffled ones can coincide with others."""

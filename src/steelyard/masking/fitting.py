"""Whether what the masks of a table make fits its columns: types, lengths, NOT NULL, unique and partition keys.

Pure. Each problem says what to write instead. Conditions on values (checks, domains) cannot be judged without rows:
`proving.py` tries them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from steelyard.masking import expressions
from steelyard.masking.catalogue import Column, Table, Type, Unique
from steelyard.masking.expressions import Mask

Problem = tuple[str | None, str, str]
"""Column, reason, what to do instead."""

_FAKES: Final = ("fakeName", "fakeEmail", "fakePhone", "fakeAddress")
_TOLERATED: Final = 1e-3
"""How likely two values of a unique column may become equal. If they do, the copy fails when its index is made."""
_ROWS_OF_A_PAGE: Final = 60


def problems(table: Table, masks: Mapping[str, Mask]) -> Iterable[Problem]:
    """All of them; what is kept fits."""
    masked = {name: mask for name, mask in masks.items() if mask.action != "keep"}
    for name, mask in masked.items():
        column = table.column(name)
        yield from _of_type(column, mask)
        yield from _of_size(table, column, mask)
        if mask.action == "null":
            yield from _of_null(table, column, masked)
    for unique in table.uniques:
        yield from _of_unique(table, unique, masked)
    for key in table.foreign_keys:
        for name in key.columns if len(key.columns) > 1 else ():
            if name in masked and masked[name].action == "shuffle":
                yield name, f"is part of the foreign key {key.name} of several columns.", "Use keep or null."
        for name in key.columns:
            if table.column(name).folds and name in masked and masked[name].action in ("hash", *_FAKES):
                yield (
                    name,
                    "has a collation for which different texts are equal; masked they would not be.",
                    "Use keep.",
                )
    if table.partitioned_by in ("list", "range"):
        for name in table.partition_key:
            if name in masked:
                reason = (
                    f"decides in which partition a row is ({table.partitioned_by}), and the bounds show its values."
                )
                yield name, reason, "Use keep."


def is_portable(of: Type) -> bool:
    """Whether its binary form means the same in another database: not where numbers of types are part of it."""
    if of.element is not None:
        return of.element.built_in and of.element.kind == "base" and not of.element.domains and is_portable(of.element)
    if of.kind in ("composite", "range", "multirange", "pseudo"):
        return of.built_in and of.kind in ("range", "multirange")
    return of.kind == "enum" or of.built_in or expressions.is_case_insensitive(of)


def _of_type(column: Column, mask: Mask) -> Iterable[Problem]:
    kind = expressions.family(mask.type)
    if mask.action in _FAKES and kind != "text":
        yield (
            column.name,
            f"is of type {mask.type.name}; {mask.action} makes text.",
            "Use hash, null, constant or shuffle.",
        )
    elif mask.action == "shiftDates" and kind not in ("date", "timestamp"):
        yield (
            column.name,
            f"is of type {mask.type.name}; shiftDates is for dates.",
            "Use hash, null, constant or shuffle.",
        )
    elif mask.action == "hash" and kind in ("date", "timestamp"):
        yield (
            column.name,
            f"is of type {mask.type.name}, for which there is no hash.",
            "Use shiftDates, null or shuffle.",
        )
    elif mask.action == "hash" and kind in ("boolean", "other"):
        yield (
            column.name,
            f"is of type {mask.type.name}, for which there is no hash.",
            "Use null, constant, shuffle or keep.",
        )
    elif mask.action == "hash" and kind == "numeric" and not 0 <= (mask.type.scale or 0) <= (mask.type.precision or 0):
        if mask.type.precision is not None:
            yield column.name, "has a scale for which there is no hash.", "Use null, constant, shuffle or keep."
    elif mask.action == "hash" and kind == "enum" and not mask.type.labels and mask.type.element is None:
        yield column.name, "is of an enum without labels.", "Use null or keep."


def _of_size(table: Table, column: Column, mask: Mask) -> Iterable[Problem]:
    if expressions.family(mask.type) == "text" and mask.length is not None:
        if mask.action == "constant" and mask.type.element is None and len(mask.value or "") > mask.length:
            yield (
                column.name,
                f"has room for {mask.length} characters; the constant is longer.",
                "Write a shorter value.",
            )
        needed = expressions.shortest(mask.action, unique=mask.unique)
        if mask.action in _FAKES and mask.length < needed:
            reason = f"has room for {mask.length} characters; {mask.action} needs {needed} here."
            yield column.name, reason, "Use hash, null, constant or shuffle."
            return
    if mask.unique and mask.action in ("hash", *_FAKES):
        rows = table.rows or table.pages * _ROWS_OF_A_PAGE
        if max(rows, 2) ** 2 / (2 * expressions.space(mask)) > _TOLERATED:
            reason = f"is unique; {mask.action} makes too few different values of {mask.type.name} for {rows} rows."
            yield column.name, reason, "Use shuffle or keep, or make the column wider."


def _of_null(table: Table, column: Column, masked: Mapping[str, Mask]) -> Iterable[Problem]:
    if column.not_null or column.type.not_null:
        yield column.name, "must have a value (NOT NULL).", "Use constant or hash."
    for key in table.foreign_keys:
        if key.full and column.name in key.columns:
            others = [name for name in key.columns if name not in masked or masked[name].action != "null"]
            if others:
                reason = f"is part of the foreign key {key.name}, which is NULL as a whole or not at all (MATCH FULL)."
                yield column.name, reason, f"Use null for {', '.join(others)} too, or keep."


def _of_unique(table: Table, unique: Unique, masked: Mapping[str, Mask]) -> Iterable[Problem]:
    touched = [name for name in unique.columns if name in masked]
    for name in unique.columns:
        column = table.column(name)
        if column.generated and any(source in masked for source in column.generated_from):
            yield name, f"is in {unique.name} and computed from masked columns; it may not stay unique.", "Keep those."
    if not touched:
        return
    if unique.exclusion:
        for name in touched:
            if masked[name].action != "null":
                reason = f"is part of the exclusion constraint {unique.name}; masked values may overlap."
                yield name, reason, "Use keep."
        return
    if unique.expression is not None:
        for name in touched:
            if not _survives_expression(unique.expression, name, masked[name]):
                yield (
                    name,
                    f"is part of the unique index {unique.name} over an expression.",
                    "Use hash, fakeEmail or keep.",
                )
        return
    merging = [name for name in touched if _merges(masked[name], unique)]
    rest = set(unique.columns) - set(merging)
    is_unique_anyway = any(
        set(other.columns) <= rest and not other.exclusion and other.expression is None for other in table.uniques
    )
    for name in merging if not is_unique_anyway else ():
        reason = f"is part of {unique.name}, which wants different values; {masked[name].action} may repeat them."
        yield name, reason, "Use hash, or keep."


def _merges(mask: Mask, unique: Unique) -> bool:
    """Whether rows that differ could come to be the same under the unique key."""
    if mask.action == "null":
        return not unique.nulls_distinct
    return mask.action == "constant" or (mask.action == "shuffle" and len(unique.columns) > 1)


def _survives_expression(definition: str, column: str, mask: Mask) -> bool:
    """`lower(email)`: what is made of small letters and digits only stays different."""
    if mask.action == "null":
        return True
    written = rf"(?:{re.escape(column)}|{re.escape(expressions.quoted(column))})"
    simple = re.search(rf"\b(?:lower|upper)\(\(?{written}\)?(?:::text)?\)", definition)
    is_lower_case = mask.action == "fakeEmail" or (mask.action == "hash" and expressions.family(mask.type) == "text")
    return simple is not None and is_lower_case

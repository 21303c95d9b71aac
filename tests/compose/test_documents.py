"""docs/documents.md follows each field of each manifest that the documents print to where it is in what is composed, or
says why it is dropped; here its rows are held against the documents and against the golden cases."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from steelyard.api import crd
from steelyard.compose import offering
from steelyard.kube import objects
from tests.compose import cases, documents, following, rendered
from tests.compose.documents import Manifest
from tests.compose.following import MISSING, Row, Section

SECTIONS = following.sections()
LATER = following.later()
MANIFESTS = documents.manifests() if documents.FOLDER.is_dir() else ()

each_section = pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)


def about(section: Section) -> list[Manifest]:
    return [manifest for manifest in MANIFESTS if section.is_about(manifest)]


def row_of(section: Section, path: str) -> tuple[Row, list[str]] | None:
    for row in section.rows:
        targets = row.fits(path)
        if targets is not None:
            return row, targets
    return None


@functools.cache
def golden(case: str) -> Any:
    return cases.load(case, "desired.yaml")


@functools.cache
def definition(kind: str, domain: str) -> Any:
    found = next(each for each in offering.STANDARD.kinds if each.resource("").kind == kind)
    return crd.definition(found.definition(domain))


def reads(section: Section, manifest: Manifest) -> list[Any]:
    """What the rows of a section point into: for a claim, the golden case and what becomes of the very claim."""
    if section.definition:
        _, _, domain = str(manifest.object["spec"]["group"]).partition(".")
        return [definition(section.definition, domain)]
    made = [golden(section.golden)] if section.golden else []
    claim = documents.filled_in(manifest)
    if offering.STANDARD.kind_of(claim) is not None:
        composed = rendered.in_full(claim, rendered.platform_of(claim, "kubevirt"))
        made.append(objects.copy(cases.as_document(composed)))
    return made


def found_at(document: Any, target: str) -> Any:
    """In a golden case, parts are under `desired`, which rows leave out."""
    here = following.at(objects.mapping(document.get("desired")), target)
    return following.at(document, target) if here is MISSING else here


def problem(row: Row, value: Any, found: Any, *, is_very: bool) -> str:
    """`is_very`: the document is what became of the manifest itself, or what it must be equal to."""
    if found is MISSING:
        return "is not there"
    if not is_very:
        return ""
    match row.how:
        case "same":
            return "" if found == value else f"is {found!r}"
        case "as":
            return "" if found == row.detail.format(value) else f"is {found!r}"
        case "among":
            return "" if isinstance(found, list | dict) and value in found else f"is {found!r}"
        case "changed":
            return "" if found != value else "is the same"
        case _:
            return "" if "${" in str(value) else f"is filled in, and nothing is left open by {value!r}"


@each_section
@documents.needed
def test_every_field_is_followed(section: Section) -> None:
    assert about(section), "no such manifest is printed"
    missing = [
        f"{manifest.title}: {path} = {value!r}"
        for manifest in about(section)
        for path, value in following.leaves(documents.filled_in(manifest))
        if row_of(section, path) is None
    ]
    assert missing == []


@each_section
@documents.needed
def test_every_row_is_about_something(section: Section) -> None:
    used = {
        found[0].line
        for manifest in about(section)
        for path, _ in following.leaves(documents.filled_in(manifest))
        if (found := row_of(section, path)) is not None
    }
    assert [f"line {row.line}: {row.patterns}" for row in section.rows if row.line not in used] == []


@each_section
@documents.needed
def test_what_a_row_says_is_true(section: Section) -> None:
    untrue: list[str] = []
    for manifest in about(section):
        read = reads(section, manifest)
        for path, value in following.leaves(documents.filled_in(manifest)):
            found = row_of(section, path)
            if found is None:
                continue
            row, targets = found
            untrue += (
                f"line {row.line}: {manifest.title}: {path} = {value!r}: {target} {told}"
                for target in targets
                for number, document in enumerate(read, 1)
                if (told := problem(row, value, found_at(document, target), is_very=number == len(read)))
            )
    assert untrue == []


@each_section
def test_a_row_is_whole(section: Section) -> None:
    """It says how, with a reason where one is due, and points somewhere unless nothing is there."""
    for row in section.rows:
        assert row.how in following.HOW, f"line {row.line}: {row.how}"
        assert bool(row.detail) == (row.how in (*following.WITH_REASON, "as")), f"line {row.line}: a reason, or none"
        assert bool(row.targets) == (row.how not in following.WITHOUT_TARGET), f"line {row.line}: where it is, or not"
    points = any(row.targets for row in section.rows)
    assert not points or section.golden or section.definition, "no golden case and no definition"


@each_section
def test_the_golden_case_that_a_section_names_is_there(section: Section) -> None:
    assert not section.golden or section.golden in cases.CASES


@documents.needed
def test_every_manifest_is_followed_once_or_left_for_later() -> None:
    wrong = [
        manifest.title
        for manifest in MANIFESTS
        if len([each for each in SECTIONS if each.is_about(manifest)]) != int(not is_later(manifest))
    ]
    assert wrong == []
    printed = {key for manifest in MANIFESTS for key in keys(manifest)}
    assert [key for key in LATER if key not in printed] == [], "left for later, and printed nowhere"


def keys(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """By kind, or by kind and name."""
    _, _, called = manifest.title.partition(" ")
    return (manifest.document, manifest.kind), (manifest.document, called)


def is_later(manifest: Manifest) -> bool:
    return any(key in LATER for key in keys(manifest))

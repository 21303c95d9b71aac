"""Named formats: whether a text is a DNS label, a label's value, a URI, …, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from steelyard.frozen import frozen
from steelyard.kube import namerules
from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.libraries import network
from steelyard.kube.cel.values import NONE, Optional
from steelyard.kube.schema import formats


@frozen
class NamedFormat:
    kind: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    problems: Callable[[str], Sequence[str]]


def _standard(format_: str, complaint: str) -> Callable[[str], Sequence[str]]:
    check = formats.checker(format_)
    assert check is not None
    return lambda text: () if check(text) else (complaint,)


def _uri(text: str) -> Sequence[str]:
    complaint = network.url_problem(text)
    return (complaint,) if complaint else ()


_FORMATS: Final = {
    key: NamedFormat(name, problems)
    for key, name, problems in (
        ("dns1123Label", "DNS1123Label", namerules.dns_label),
        ("dns1123Subdomain", "DNS1123Subdomain", namerules.dns_subdomain),
        ("dns1035Label", "DNS1035Label", namerules.dns1035_label),
        ("qualifiedName", "QualifiedName", namerules.qualified_name),
        ("dns1123LabelPrefix", "DNS1123LabelPrefix", namerules.generated(namerules.dns_label)),
        ("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", namerules.generated(namerules.dns_subdomain)),
        ("dns1035LabelPrefix", "DNS1035LabelPrefix", namerules.generated(namerules.dns1035_label)),
        ("labelValue", "LabelValue", namerules.label_value),
        ("uri", "URI", _uri),
        ("uuid", "uuid", _standard("uuid", "does not match the UUID format")),
        ("byte", "byte", _standard("byte", "invalid base64")),
        ("date", "date", _standard("date", "invalid date")),
        ("datetime", "datetime", _standard("date-time", "invalid datetime")),
    )
}


def _validate(format_: NamedFormat, text: str) -> Optional:
    problems = list(format_.problems(text))
    return Optional(problems) if problems else NONE


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(format_: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: format_


OVERLOADS: Final = (
    declare("format -> validate(string) optional(list(string))", _validate),
    declare("format.named(string) optional(format)", _named),
    *(declare(f"format.{key}() format", _constant(format_)) for key, format_ in _FORMATS.items()),
)

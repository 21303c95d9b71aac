"""What a push is made of: the values of a Secret beside it, filled into its template, or a password made up anew."""

from __future__ import annotations

import base64
import binascii
import secrets
import string
from collections.abc import Callable, Mapping
from typing import Final

from steelyard.api.externalsecrets.kinds import PASSWORDS
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.providers.vault import templates
from steelyard.providers.vault.telling import Problem

_LONGEST: Final = 512
_SYMBOLS: Final = '~!@#$%^&*()_+`-={}|[]\\:"<>?,./'
_WHOLE: Final = ""


@frozen
class Source:
    values: Callable[[], Mapping[str, str]]
    """What is there to be put into Vault, by key. A password is made up when it is called, and not before."""


def read(secret: Object) -> dict[str, str]:
    """What is not text keeps its bytes by Python's way of escaping them."""
    try:
        return {
            key: base64.b64decode(str(value), validate=True).decode(errors="surrogateescape")
            for key, value in objects.mapping(secret.get("data")).items()
        }
    except binascii.Error:
        raise Problem(f"Secret {objects.name(secret)} cannot be read") from None


async def of(client: Client, push: Object) -> Source:
    """Raises Problem, TemplateError."""
    namespace, selector = objects.namespace(push), objects.mapping(objects.at(push, "spec", "selector"))
    template = objects.mapping(objects.at(push, "spec", "template"))
    if generator := objects.mapping(selector.get("generatorRef")):
        make = await _generator(client, namespace, generator)
        return Source(lambda: _templated(template, make()))
    asked = objects.mapping(selector.get("secret"))
    name = str(asked.get("name") or "")
    if not name:
        raise Problem("spec.selector.secret.name is needed: selecting Secrets by label is not supported here")
    try:
        secret = await client.get(SECRETS, name, namespace)
    except errors.NotFound:
        raise Problem(f"there is no Secret {name} to put into Vault: it is waited for") from None
    values = _templated(template, read(secret))
    return Source(lambda: values)


def _templated(template: Object, values: dict[str, str]) -> dict[str, str]:
    if template.get("templateFrom"):
        raise Problem("spec.template.templateFrom is not supported here: write the template into spec.template.data")
    data = objects.mapping(template.get("data"))
    if not data:
        return values
    made = {key: templates.render(str(text), values) for key, text in data.items()}
    return {**values, **made} if template.get("mergePolicy") == "Merge" else made


async def _generator(client: Client, namespace: str, reference: Object) -> Callable[[], dict[str, str]]:
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    if kind != PASSWORDS.kind:
        raise Problem(f"the generator {kind} is not supported here: only {PASSWORDS.kind} is")
    try:
        generator = await client.get(PASSWORDS, name, namespace)
    except errors.NotFound:
        raise Problem(f"there is no {kind} {name} that says how the password is made up") from None
    spec = objects.mapping(generator.get("spec"))
    if spec.get("encoding") not in (None, "raw"):
        raise Problem(f"{kind} {name}: the encoding {spec.get('encoding')} is not supported here")
    keys = [str(each) for each in objects.sequence(spec.get("secretKeys"))] or ["password"]
    return lambda: {key: password(spec) for key in keys}


def password(spec: Object) -> str:
    """As External Secrets' Password says: how long, with how many digits and symbols, whether with capitals."""
    length = int(spec.get("length") or 24)
    if not 1 <= length <= _LONGEST:
        raise Problem(f"a password must have between 1 and {_LONGEST} characters")
    symbols = str(spec.get("symbolCharacters") or _SYMBOLS)
    quarter = length // 4
    digits = min(_number(spec, "digits", quarter), length)
    signs = min(_number(spec, "symbols", quarter), length - digits)
    letters = string.ascii_lowercase if spec.get("noUpper") else string.ascii_letters
    made = [
        *(secrets.choice(string.digits) for _ in range(digits)),
        *(secrets.choice(symbols) for _ in range(signs)),
        *(secrets.choice(letters) for _ in range(length - digits - signs)),
    ]
    secrets.SystemRandom().shuffle(made)
    return "".join(made)


def _number(spec: Object, field: str, default: int) -> int:
    value = spec.get(field)
    return default if value is None else max(int(str(value)), 0)

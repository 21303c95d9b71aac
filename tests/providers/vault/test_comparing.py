"""Whether what Vault shows is what was written."""

from __future__ import annotations

import pytest

from steelyard.kube.objects import Object
from steelyard.providers.vault import comparing


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({"default_ttl": "1h"}, {"default_ttl": 3600}),
        ({"token_policies": ["a", "b"]}, {"token_policies": ["a", "b"]}),
        ({"token_policies": "a,b"}, {"token_policies": ["a", "b"]}),
        ({"policy": "x\n"}, {"name": "p", "policy": "x"}),
        ({"connection_url": "u"}, {"connection_details": {"connection_url": "u"}}),
        ({"enabled": True}, {"enabled": "true"}),
        ({"password": "hidden"}, {"username": "shown"}),
        ({"creation_statements": ["CREATE ROLE a, b;"]}, {"creation_statements": ["CREATE ROLE a, b;"]}),
    ],
)
def test_the_same_in_vaults_words_is_the_same(wanted: Object, shown: Object) -> None:
    assert comparing.differs(wanted, shown) == ""


@pytest.mark.parametrize(
    ("wanted", "shown", "field"),
    [
        ({"default_ttl": "1h"}, {"default_ttl": 60}, "default_ttl"),
        ({"token_policies": ["a"]}, {"token_policies": ["a", "root"]}, "token_policies"),
        ({"policy": "x"}, {"policy": 'path "*" {}'}, "policy"),
        ({"bound": []}, {"bound": ["*"]}, "bound"),
    ],
)
def test_what_somebody_changed_is_seen(wanted: Object, shown: Object, field: str) -> None:
    assert comparing.differs(wanted, shown) == field


def test_only_the_named_fields_are_compared() -> None:
    assert comparing.differs({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, ["a"]) == ""

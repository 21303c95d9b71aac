"""Which paths are asked for: none that leads elsewhere than it says."""

from __future__ import annotations

import pytest

from steelyard.vault import paths
from steelyard.vault.errors import Invalid


@pytest.mark.parametrize(
    "path",
    [
        "apps/dev/shop",
        "sys/policies/acl/steelyard-x",
        "database/roles/dev.team-a.shop-readwrite",
        "a",
        "auth/k_8/config",
    ],
)
def test_a_plain_path_is_one(path: str) -> None:
    assert paths.checked(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/../b",
        "a/./b",
        "a?list=true",
        "a#b",
        "a%2e%2e/b",
        "a b",
        "a\\b",
        "a\n",
        "ä",
        "a" * 600,
    ],
)
def test_anything_else_is_refused(path: str) -> None:
    with pytest.raises(Invalid, match="is no path in Vault"):
        paths.checked(path)

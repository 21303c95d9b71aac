"""The provider killed in the middle; `tests.providers.kvm.kills` as a program, and `make soak`, do it hundreds of
times."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.providers.kvm import kills
from tests.providers.kvm.daemons import Libvirtd


@pytest.mark.crash
def test_a_provider_that_is_killed_again_and_again_doubles_and_leaves_nothing(daemon: Libvirtd, tmp_path: Path) -> None:
    killed, wrong = kills.life(daemon, tmp_path, kills.again_and_again(random.Random(2), most_between=100))
    assert wrong == []
    assert len(killed) >= 2, killed

"""Which platform file a start uses, and what it remembers of the last one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from steelyard import settings
from steelyard.settings import Chosen, Remembered, SettingsError

TEXT = "domain: example.org\nenvironments:\n  dev: {memoryGi: 64}\nsimulated: {bootSeconds: 0.25}\n"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "remembered.yaml"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    made = tmp_path / "elsewhere"
    made.mkdir()
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "platform.yaml"
    made.write_text(TEXT)
    return made


def test_everything_comes_back_with_the_place_it_is_from(memory: Path, file: Path) -> None:
    assert settings.recall(memory) is None
    chosen = settings.choose(file, memory, environ={})
    settings.remember(memory, chosen)
    remembered = settings.recall(memory)
    assert remembered is not None
    assert (remembered.path, remembered.platform, remembered.problem) == (file, settings.parse(TEXT), "")
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600


def test_what_is_remembered_is_a_platform_file_to_copy(memory: Path, file: Path, elsewhere: Path) -> None:
    settings.remember(memory, settings.choose(file, memory, environ={}))
    copy = elsewhere / "copy.yaml"
    copy.write_bytes(memory.read_bytes())
    assert settings.load(copy) == settings.load(file)
    with pytest.raises(SettingsError, match="copy it"):
        settings.choose(memory, memory, environ={})


def test_without_a_file_at_hand_that_of_the_last_start_is_used(memory: Path, file: Path, elsewhere: Path) -> None:
    settings.remember(memory, settings.choose(file, memory, environ={}))
    chosen = settings.choose(None, memory, environ={}, directory=elsewhere)
    assert (chosen.path, chosen.platform, chosen.from_memory) == (file, settings.parse(TEXT), True)


def test_a_file_that_is_named_or_at_hand_comes_first(memory: Path, file: Path, elsewhere: Path) -> None:
    settings.remember(memory, settings.choose(file, memory, environ={}))
    (elsewhere / "platform.yaml").write_text("domain: other.org\n")
    chosen = settings.choose(None, memory, environ={}, directory=elsewhere)
    assert (chosen.platform.domain, chosen.from_memory) == ("other.org", False)
    named = settings.choose(None, memory, environ={"STEELYARD_PLATFORM": str(file)}, directory=elsewhere)
    assert named.platform.domain == "example.org"


def test_a_remembered_file_that_is_gone_is_not_passed_over(memory: Path, file: Path, elsewhere: Path) -> None:
    settings.remember(memory, settings.choose(file, memory, environ={}))
    file.unlink()
    with pytest.raises(SettingsError) as told:
        settings.choose(None, memory, environ={}, directory=elsewhere)
    assert str(file) in str(told.value)
    assert "--platform" in str(told.value)
    assert str(memory) in str(told.value)


def test_defaults_are_remembered_as_well(memory: Path, elsewhere: Path) -> None:
    chosen = settings.choose(None, memory, environ={}, directory=elsewhere)
    assert chosen == Chosen(settings.Platform(), None)
    settings.remember(memory, chosen)
    assert settings.choose(None, memory, environ={}, directory=elsewhere) == chosen
    assert settings.recall(memory) == Remembered(None, settings.Platform())
    of_others = settings.recall(memory, infrastructures=["toy"])
    assert of_others is not None
    assert "cannot make machines of simulated" in of_others.problem


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"# steelyard: {}\n", b'# steelyard: {"path":"/a"}\nnew: 1\n'])
def test_what_cannot_be_read_is_told_and_not_taken_for_nothing(memory: Path, content: bytes) -> None:
    memory.write_bytes(content)
    remembered = settings.recall(memory)
    assert remembered is not None
    assert remembered.platform is None
    assert str(memory) in remembered.problem


def test_the_same_again_is_not_written_again(memory: Path, file: Path) -> None:
    chosen = settings.choose(file, memory, environ={})
    settings.remember(memory, chosen)
    before = memory.stat()
    settings.remember(memory, chosen)
    assert (memory.stat().st_ino, memory.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

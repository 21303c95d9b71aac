"""Who is asked, what silence means, and what Ctrl-C leaves behind: commands as processes, some on a terminal."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.cli.exits import Exit
from tests import forked
from tests.cli.terminal import Person
from tests.harness import PlatformProcess


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with PlatformProcess(tmp_path_factory.mktemp("platform")) as process:
        process.start()
        yield process


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments)


@pytest.fixture
def claim(shared: PlatformProcess, request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """A claim of the test's own, and where the platform is."""
    where = ["--data-dir", str(shared.data_dir.root)]
    name = f"c{abs(hash(request.node.name)) % 10_000_000}"
    made = run("create", "cluster", name, "--environment", "dev", "--worker-replicas", "0", *where)
    assert made.returncode == 0, made.stderr
    yield name, where
    run("delete", name, "--yes", "--no-wait", *where)


def is_there(name: str, where: list[str]) -> bool:
    claims = run("get", "-o", "yaml", *where).stdout
    return f"name: {name}\n" in claims and "deletionTimestamp" not in claims


def test_without_a_terminal_nothing_is_deleted_unless_yes_is_said(claim: tuple[str, list[str]]) -> None:
    name, where = claim
    done = run("delete", name, *where)
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert "nothing was deleted" in done.stderr
    assert "--yes" in done.stderr
    assert is_there(name, where)


def test_ctrl_c_at_the_question_deletes_nothing(claim: tuple[str, list[str]]) -> None:
    name, where = claim
    person = Person("delete", name, *where)
    person.read_until("[y/N]")
    assert f"Delete WorkloadCluster default/{name} and everything made for it?" in person.seen
    person.press_ctrl_c()
    assert person.code() == Exit.INTERRUPTED
    assert "Traceback" not in person.seen
    assert is_there(name, where)


@pytest.mark.parametrize("answer", ["n\n", "\n", "ja\n", "\x04"], ids=["no", "nothing", "another word", "end of input"])
def test_only_yes_is_consent(claim: tuple[str, list[str]], answer: str) -> None:
    name, where = claim
    person = Person("delete", name, *where)
    person.read_until("[y/N]")
    person.type(answer)
    assert person.code() == Exit.FAILED
    assert "nothing was deleted" in person.seen
    assert is_there(name, where)


def test_who_agrees_gets_it_deleted(claim: tuple[str, list[str]]) -> None:
    name, where = claim
    person = Person("delete", name, *where)
    person.read_until("[y/N]")
    person.type("y\n")
    assert person.code() == Exit.OK, person.seen
    assert f"WorkloadCluster default/{name} deleted" in person.seen


def _has_loaded(word: str) -> Callable[[int, Path], bool]:
    return lambda pid, _: word in _maps(pid)


def _has_made(name: str) -> Callable[[int, Path], bool]:
    return lambda _, data: (data / name).exists()


def _maps(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text()
    return ""


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(_has_loaded("orjson"), id="the first modules are loaded"),
        pytest.param(_has_loaded("_pydantic_core"), id="the models are being made"),
        pytest.param(_has_loaded("uvloop"), id="the server is being loaded"),
        pytest.param(_has_made(""), id="the data directory is there"),
        pytest.param(_has_made("steelyard.pid"), id="it is claimed"),
        pytest.param(_has_made("steelyard.db"), id="a database is there"),
        pytest.param(_has_made("pki/ca.key"), id="half an authority is there"),
        pytest.param(_has_made("kubeconfig"), id="it serves"),
    ],
)
def test_ctrl_c_while_the_platform_starts_is_quiet_and_the_next_start_goes_on(
    tmp_path: Path, moment: Callable[[int, Path], bool]
) -> None:
    with PlatformProcess(tmp_path, is_fresh=True) as platform:
        platform.launch()
        assert platform.process is not None
        deadline = time.monotonic() + 120
        while not moment(platform.process.pid, platform.data_dir.root):
            assert time.monotonic() < deadline
            assert platform.process.poll() is None
            time.sleep(0.001)
        platform.process.send_signal(signal.SIGINT)
        assert platform.process.wait(120) in (Exit.OK, Exit.INTERRUPTED)
        told = platform.log.read_text()
        assert "Traceback" not in told
        assert "Aborted" not in told
        assert not list(platform.data_dir.root.rglob("*.new"))
    with PlatformProcess(tmp_path) as platform:
        platform.start()

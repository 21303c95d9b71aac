"""`plan` and `revise`: what is shown, what never is, what the exit codes say. First without a server, then with one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.exits import Exit, PlanExit
from tests.cli.terminal import Person, Terminal
from tests.harness import PlatformProcess

CLAIM = """\
apiVersion: compute.steelyard.dev/v1alpha1
kind: WorkloadCluster
metadata: {name: NAME, namespace: default}
spec: {parameters: {environment: dev}}
"""
KIND = "workloadcluster.compute.steelyard.dev"


def claim(name: str = "shop", **parameters: object) -> str:
    said = "".join(f", {key}: {value}" for key, value in parameters.items())
    return CLAIM.replace("NAME", name).replace("environment: dev", f"environment: dev{said}")


class Repository:
    """A directory of claims under version control."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._git("init", "-q", "-b", "main")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def commit(self) -> None:
        self._git("add", "-A")
        self._git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_a_revision_of_the_repository_is_compared_with_what_the_files_say_now(
    idle: Terminal, repository: Repository
) -> None:
    repository.write("claims/shop.yaml", claim())
    repository.write("claims/gone.yaml", claim("gone"))
    repository.commit()
    claims = str(repository.folder / "claims")
    assert idle.quick("plan", "-f", claims, "--against", "git:main").code == PlanExit.NO_CHANGES

    repository.write("claims/shop.yaml", claim(workerReplicas=4))
    changed = idle.quick("plan", "-f", claims, "--against", "git:HEAD")
    assert changed.code == PlanExit.CHANGES
    assert "spec.replicas   2 -> 4" in changed.out
    assert changed.out.endswith("Plan: 0 to create, 2 to change, 0 to replace, 0 to delete\n")

    repository.write("claims/shop.yaml", claim(memoryGi=64))
    rolling = idle.quick("plan", "-f", claims, "--against", "git:HEAD")
    assert rolling.code == PlanExit.DISRUPTIVE
    assert "rolling: pool md-0: replaces 2 machines, surge 1: memoryGi 32 -> 64" in rolling.out
    assert rolling.out.endswith("; rolling: 3 machines\n")

    (repository.folder / "claims" / "gone.yaml").unlink()
    gone = idle.quick("plan", "-f", claims, "--against", "git:HEAD")
    assert gone.code == PlanExit.DISRUPTIVE
    assert "data loss: cluster gone: its machines are deleted, with all that is on them" in gone.out

    file = str(repository.folder / "claims" / "shop.yaml")
    assert "gone" not in idle.quick("plan", "-f", file, "--against", "git:HEAD").out


def test_a_platform_file_of_the_repository_is_compared_as_well(idle: Terminal, repository: Repository) -> None:
    repository.write("claims/shop.yaml", claim())
    repository.write("platform.yaml", "environments: {dev: {memoryGi: 48}}\n")
    repository.commit()
    repository.write("platform.yaml", "environments: {dev: {memoryGi: 96}}\n")
    where = ("-f", str(repository.folder / "claims"), "--platform", str(repository.folder / "platform.yaml"))

    done = idle.quick("plan", *where, "--against", "git:main", "--all")

    assert done.code == PlanExit.DISRUPTIVE
    assert "WorkloadCluster default/shop   3 machines: memoryGi 48 -> 96" in done.out


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("git:--output=/tmp/x", "names no revision"),
        ("git:-x", "names no revision"),
        ("git:", "names no revision"),
        ("git:a b", "names no revision"),
        ("git:nowhere", "there is no revision nowhere"),
        ("/no/such/directory", "there is no such directory"),
    ],
)
def test_odd_revisions_and_directories_are_refused(
    idle: Terminal, repository: Repository, against: str, said: str
) -> None:
    repository.write("shop.yaml", claim())
    repository.commit()
    done = idle.quick("plan", "-f", str(repository.folder / "shop.yaml"), "--against", against)
    assert (done.code, done.out) == (PlanExit.FAILED, "")
    assert said in done.err


def test_outside_of_a_repository_git_tells_its_own_story(idle: Terminal, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(claim())
    done = idle.quick("plan", "-f", str(tmp_path / "shop.yaml"), "--against", "git:main")
    assert done.code == PlanExit.FAILED
    assert "rev-parse --show-toplevel failed with exit code 128: " in done.err
    assert "not a git repository" in done.err


@pytest.mark.parametrize("arguments", [(), ("--nonsense",), ("shop", "--all"), ("shop", "--against", "git:main")])
def test_a_wrong_command_line_never_looks_like_a_plan_with_changes(idle: Terminal, arguments: tuple[str, ...]) -> None:
    assert idle.quick("plan", *arguments).code == PlanExit.FAILED


def test_rendered_manifests_can_be_compared_with(idle: Terminal, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    assert idle.quick("render", "-f", "-", "-o", made, given=claim()).code == Exit.OK
    assert idle.quick("plan", "-f", "-", "--against", made, given=claim()).code == PlanExit.NO_CHANGES
    changed = idle.quick("plan", "-f", "-", "--against", made, given=claim(cpuCores=2))
    assert changed.code == PlanExit.DISRUPTIVE
    assert "  -/+ SimulatedMachineTemplate shop-md-0-" in changed.out
    new = idle.quick("plan", "-f", "-", "--against", made, given=claim("another"))
    assert new.out.endswith("Plan: 8 to create, 0 to change, 0 to replace, 0 to delete\n")


def test_the_blast_radius_of_another_platform_file_needs_no_server(idle: Terminal, tmp_path: Path) -> None:
    claims = "---\n".join((claim("a"), claim("b", memoryGi=16), claim("c", workerReplicas=5)))
    (tmp_path / "new.yaml").write_text("environments: {dev: {memoryGi: 64}}\n")
    done = idle.quick("plan", "-f", "-", "--all", "--platform", str(tmp_path / "new.yaml"), given=claims)
    assert done.code == PlanExit.DISRUPTIVE
    assert done.out.splitlines() == [
        "rolling: 2 claims, 9 machines",
        "  WorkloadCluster default/c   6 machines: memoryGi 32 -> 64",
        "  WorkloadCluster default/a   3 machines: memoryGi 32 -> 64",
        "",
        "1 of 3 claims stay as they are",
        "",
        "Plan: 0 to create, 4 to change, 4 to replace, 0 to delete; rolling: 9 machines",
    ]


def test_lines_fit_80_columns_and_colours_are_for_terminals(idle: Terminal, tmp_path: Path) -> None:
    long = "a-cluster-with-a-name-that-is-rather-long"
    made = str(tmp_path / "made")
    idle.quick("render", "-f", "-", "-o", made, given=claim(long))
    done = idle.quick("plan", "-f", "-", "--against", made, given=claim(long, memoryGi=64, kubernetesVersion="1.33.0"))
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b[" not in done.out


@pytest.mark.parametrize(("no_color", "expected"), [("", True), ("1", False)])
def test_on_a_terminal_there_are_colours_unless_they_are_not_wanted(
    tmp_path: Path, no_color: str, expected: bool
) -> None:
    (tmp_path / "shop.yaml").write_text(claim())
    (tmp_path / "empty").mkdir()
    environment = {"NO_COLOR": no_color, "STEELYARD_DATA_DIR": str(tmp_path / "data")}
    folder = ("-f", str(tmp_path / "shop.yaml"), "--against", str(tmp_path / "empty"))
    person = Person("plan", *folder, environment=environment)
    assert person.code() == PlanExit.CHANGES
    assert ("\x1b[32m+" in person.seen) is expected


def test_secrets_are_never_printed(idle: Terminal, tmp_path: Path) -> None:
    """A manifest as somebody may have it in a directory, with a Secret that is a part of the claim."""
    made = tmp_path / "made"
    assert idle.quick("render", "-f", "-", "-o", str(made), given=claim()).code == Exit.OK
    labels = "{steelyard.dev/claim-kind: WorkloadCluster, steelyard.dev/claim-namespace: default, "
    (made / "secret.yaml").write_text(
        "apiVersion: v1\nkind: Secret\n"
        f"metadata: {{name: copy, namespace: default, labels: {labels}steelyard.dev/claim-name: shop}},\n"
        "  annotations: {steelyard.dev/resource-name: a-copy}}\ndata: {kubeconfig: aHVudGVyMg==}\n"
    )
    for arguments in ((), ("-o", "json"), ("--full",)):
        done = idle.quick("plan", "-f", "-", "--against", str(made), *arguments, given=claim())
        assert done.code == PlanExit.CHANGES
        assert "copy" in done.out
        assert "aHVudGVyMg==" not in done.out + done.err


def test_json_has_everything_that_the_text_says(idle: Terminal, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    idle.quick("render", "-f", "-", "-o", made, given=claim())
    done = idle.quick("plan", "-f", "-", "--against", made, "-o", "json", given=claim(memoryGi=64))
    found: Any = json.loads(done.out)
    assert found["summary"] == {
        "create": 0,
        "change": 2,
        "replace": 2,
        "delete": 0,
        "hold": 0,
        "machinesReplaced": 3,
        "disruption": "rolling",
    }
    [shop] = found["claims"]
    assert shop["effects"][1] == {
        "disruption": "rolling",
        "subject": "pool md-0",
        "reason": "memoryGi 32 -> 64",
        "part": "workers",
        "count": 2,
        "surge": 1,
    }
    template = next(each for each in shop["objects"] if each["action"] == "replace")
    assert template["fields"] == [{"path": "spec.template.spec.memoryGi", "before": 32, "after": 64}]


# With a platform.


def ready(terminal: Terminal, text: str, name: str) -> None:
    assert terminal.quick("apply", "-f", "-", "--yes", given=text).code == Exit.OK
    assert terminal.quick("wait", name, "--for", "UpToDate").code == Exit.OK


def test_a_live_claim_is_planned_applied_and_then_there_is_nothing_left_to_plan(terminal: Terminal) -> None:
    new = terminal.quick("plan", "-f", "-", given=claim("live"))
    assert (new.code, new.out.count("\n  +   ")) == (PlanExit.CHANGES, 8)
    ready(terminal, claim("live"), "live")
    assert terminal.quick("plan", "-f", "-", given=claim("live")).code == PlanExit.NO_CHANGES
    assert terminal.quick("plan", "live").out == "No changes: what is there is as asked for.\n"

    larger = claim("live", memoryGi=64, workerReplicas=1)
    planned = terminal.quick("plan", "-f", "-", given=larger)
    assert planned.code == PlanExit.DISRUPTIVE
    assert "rolling: control plane: replaces 1 machine (live-control-plane-" in planned.out
    assert "pool md-0: removes 1 machine" in planned.out
    assert planned.out.endswith("Plan: 0 to create, 3 to change, 2 to replace, 0 to delete; rolling: 2 machines\n")
    ready(terminal, larger, "live")
    assert terminal.quick("plan", "-f", "-", given=larger).code == PlanExit.NO_CHANGES


def test_what_somebody_scaled_is_no_change_of_the_file(terminal: Terminal) -> None:
    assert terminal.quick("create", "cluster", "scaled", "--environment", "dev", "-n", "default").code == Exit.OK
    assert terminal.quick("scale", "scaled", "--workers", "1", "--wait").code == Exit.OK
    assert terminal.quick("plan", "-f", "-", given=claim("scaled")).code == PlanExit.NO_CHANGES


def test_apply_without_a_terminal_goes_on_unless_something_is_disrupted(terminal: Terminal) -> None:
    ready(terminal, claim("script"), "script")
    more = terminal.quick("apply", "-f", "-", given=claim("script", workerReplicas=3))
    assert (more.code, more.out) == (Exit.OK, f"{KIND}/script configured\n")
    assert "spec.replicas   2 -> 3" in more.err

    larger = claim("script", workerReplicas=3, memoryGi=64)
    refused = terminal.quick("apply", "-f", "-", given=larger)
    assert (refused.code, refused.out) == (Exit.USAGE, "")
    assert "nothing was applied: the plan above disrupts what runs" in refused.err
    assert "memoryGi: 64" not in terminal.quick("get", "script", "-o", "yaml").out

    agreed = terminal.quick("apply", "-f", "-", "--yes", given=larger)
    assert (agreed.code, agreed.out) == (Exit.OK, f"{KIND}/script configured\n")
    again = terminal.quick("apply", "-f", "-", given=larger)
    assert (again.code, again.out) == (Exit.OK, f"{KIND}/script unchanged\n")


def test_a_claim_is_moved_to_a_newer_revision_and_never_back(terminal: Terminal) -> None:
    old = claim("old", workerReplicas=0).replace(
        "namespace: default", "namespace: default, annotations: {steelyard.dev/composition-revision: v1}"
    )
    ready(terminal, old, "old")
    assert "compositionRevision: v1" in terminal.quick("get", "old", "-o", "yaml").out
    planned = terminal.quick("plan", "old", "--revision", "v2")
    assert planned.code == PlanExit.CHANGES
    assert 'metadata.annotations["steelyard.dev/composition-revision"]   v1 -> v2' in planned.out

    asked = terminal.quick("revise", "old", "--to", "v2")
    assert (asked.code, asked.out) == (Exit.USAGE, "")
    assert "--yes" in asked.err
    done = terminal.quick("revise", "old", "--to", "v2", "--yes")
    assert (done.code, done.out) == (Exit.OK, f"{KIND}/old moved to v2\n")
    assert "add the annotation there: steelyard.dev/composition-revision: v2" in done.err
    assert terminal.quick("wait", "old", "--for", "UpToDate").code == Exit.OK
    assert "compositionRevision: v2" in terminal.quick("get", "old", "-o", "yaml").out
    assert "at v2 already" in terminal.quick("revise", "old", "--to", "v2", "--yes").err

    for revision, said in (("v1", "an older one does not know"), ("v77", "does not have; it has v1, v2")):
        refused = terminal.quick("revise", "old", "--to", revision, "--yes")
        assert (refused.code, refused.out) == (Exit.FAILED, "")
        assert said in refused.err


def test_another_platform_file_is_shown_for_all_live_claims(terminal: Terminal, tmp_path: Path) -> None:
    ready(terminal, claim("radius"), "radius")
    (tmp_path / "new.yaml").write_text("environments: {dev: {diskGb: 500}}\n")
    done = terminal.quick("plan", "--all", "--platform", str(tmp_path / "new.yaml"), "-n", "default")
    assert done.code == PlanExit.DISRUPTIVE
    assert "  WorkloadCluster default/radius" in done.out
    assert "3 machines: diskGb 100 -> 500" in done.out


def test_without_a_platform_plan_is_an_error_and_not_a_plan(idle: Terminal) -> None:
    assert idle.quick("plan", "-f", "-", given=claim()).code == PlanExit.FAILED


def test_who_agrees_at_the_terminal_gets_it_and_ctrl_c_changes_nothing(
    shared: PlatformProcess, terminal: Terminal, tmp_path: Path
) -> None:
    ready(terminal, claim("asked", workerReplicas=0), "asked")
    file = tmp_path / "asked.yaml"
    file.write_text(claim("asked", workerReplicas=1))
    where = ["--data-dir", str(shared.data_dir.root)]
    someone = Person("apply", "-f", str(file), *where)
    someone.read_until("Apply this? [y/N]")
    assert "spec.replicas" in someone.seen
    someone.press_ctrl_c()
    assert someone.code() == Exit.INTERRUPTED
    assert "workerReplicas: 0" in terminal.quick("get", "asked", "-o", "yaml").out

    other = Person("apply", "-f", str(file), *where)
    other.read_until("Apply this? [y/N]")
    other.type("n\n")
    assert other.code() == Exit.FAILED
    assert "nothing was applied" in other.seen

    willing = Person("apply", "-f", str(file), *where)
    willing.read_until("Apply this? [y/N]")
    willing.type("y\n")
    assert willing.code() == Exit.OK, willing.seen
    assert "workerReplicas: 1" in terminal.quick("get", "asked", "-o", "yaml").out


def test_a_platform_whose_file_is_gone_is_planned_with_what_it_was_started_with(
    shared: PlatformProcess, terminal: Terminal
) -> None:
    text = shared.platform_file.read_text()
    shared.platform_file.unlink()
    try:
        assert terminal.quick("plan", "-f", "-", given=claim("nofile")).code == PlanExit.CHANGES
        assert terminal.quick("apply", "-f", "-", given=claim("nofile", workerReplicas=0)).code == Exit.OK
    finally:
        shared.platform_file.write_text(text)


def test_from_elsewhere_what_the_settings_decide_is_not_made_up(
    shared: PlatformProcess, terminal: Terminal, tmp_path: Path
) -> None:
    ready(terminal, claim("far", workerReplicas=0), "far")
    away = terminal.elsewhere(tmp_path, KUBECONFIG=str(shared.data_dir.kubeconfig))
    done = away.run("plan", "far")
    assert done.code == PlanExit.FAILED
    assert "--platform FILE" in done.err
    planned = away.run("plan", "-f", "-", given=claim("far", workerReplicas=1))
    assert planned.code == PlanExit.CHANGES
    assert "note: the platform's settings are not known here" in planned.out
    assert "spec.replicas   0 -> 1" in planned.out

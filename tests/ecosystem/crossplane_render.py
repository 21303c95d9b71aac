"""`crossplane render`, Crossplane's own command, with our function and our package: for every kind of claim, in both
forms, the objects of `steelyard render`, once they are taken out of what holds them. And its `xpkg build` takes the
packages as they are written.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from steelyard.api import xrd
from steelyard.api.xrd import Form
from steelyard.compose import identity, names
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import Observed
from steelyard.compose.offering import STANDARD
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import offline
from steelyard.settings import Platform, parse
from tests.crossplane.unwrapping import rendered
from tests.crossplane.world import composite
from tests.ecosystem.outcome import Outcome
from tests.harness import built

VERSION: Final = "2.1.0"
_NAME: Final = f"Crossplane {VERSION}'s render and xpkg build"
PLATFORM: Final = """\
redis: {mode: helm}
connectionSecrets: {grants: [{claimsIn: [team-a], secretsTo: [argocd]}]}
"""
_SECONDS: Final = 300.0


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    crank = built("crank")[0]
    passed: list[str] = []
    try:
        for step in _story(folder, crank):
            passed.append(step)
            print(f"  {step}", flush=True)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        story = f"after: {', '.join(passed)}\n{type(error).__name__}: {error}\n{said}"
        return Outcome(_NAME, len(passed), 1, story=story)
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


def write_package(folder: Path, text: str) -> tuple[Path, Path]:
    """The package, and the platform file that it is made with."""
    file, package = folder / "platform.yaml", folder / "package"
    file.write_text(text)
    steelyard("crossplane", "package", "-o", str(package), "--platform", str(file))
    return package, file


def steelyard(*arguments: str) -> str:
    command = [sys.executable, "-m", "steelyard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout


@contextlib.contextmanager
def function(*arguments: str) -> Generator[str]:
    """The function in a process of its own; gives its address."""
    command = [sys.executable, "-m", "steelyard", "function", "--address", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = re.search(r"at (127\.0\.0\.1:\d+)", process.stderr.readline())
        assert found is not None, process.stderr.read()
        yield found[1]
    finally:
        process.kill()
        process.wait(20)
        process.stderr.close()


def _story(folder: Path, crank: str) -> Iterator[str]:
    package, file = write_package(folder, PLATFORM)
    platform = parse(PLATFORM)
    with function("--insecure") as address:
        functions = folder / "functions.yaml"
        _write(functions, _reached(package, address))
        expected = printed(package / "legacy" / "examples", file)
        for form in xrd.FORMS:
            there: list[Object] = []
            for kind in STANDARD.kinds:
                resource = kind.resource(platform.domain)
                claim = yaml.safe_load((package / form / "examples" / f"{resource.plural}.yaml").read_text())
                required = folder / "required.yaml"
                required.write_text("\n---\n".join(map(json.dumps, there)))
                more = ("-e", str(required)) if there else ()
                made = composite(claim, form)
                status, found = _rendered(crank, package, functions, made, form, resource.plural, folder, *more)
                wanted = expected.get(resource.kind) or _of_what_is_there(kind, claim, there, platform)
                parts = rendered(found, platform)
                assert parts, f"{resource.kind}: nothing is composed"
                assert parts == wanted, _different(parts, wanted)
                assert status["status"]["state"] == "Creating", status
                yield f"{form} {resource.kind}: {len(parts)} objects as steelyard render prints them"
                if resource.kind == "PostgreSQLInstance":
                    # What a PostgreSQLAccess asks for: it is made of a database that is there.
                    there = [claim, *(each for each in found if each["kind"] == "Database")]
        count = _rolled(folder, crank, package, functions)
        yield f"a larger machine: {count} templates, the old one given back while machines roll"
    for name in ("function", *xrd.FORMS):
        made = folder / f"{name}.xpkg"
        _run(crank, "xpkg", "build", "-f", str(package / name), "-e", str(package / name / "examples"), "-o", str(made))
        assert made.stat().st_size > 1000, made
    yield "xpkg build makes packages of the function and of both Configurations"


def printed(claims: Path, file: Path) -> dict[str, dict[str, Object]]:
    """What `steelyard render` prints of them, by kind of claim and by part."""
    found: dict[str, dict[str, Object]] = {}
    for each in yaml.safe_load_all(steelyard("render", "-f", str(claims), "--platform", str(file))):
        part = objects.annotations(each)[names.RESOURCE_NAME]
        found.setdefault(objects.labels(each)[names.CLAIM_KIND], {})[part] = each
    return found


def _of_what_is_there(kind: ClaimKind, claim: Object, there: list[Object], platform: Platform) -> dict[str, Object]:
    """Of a claim that becomes nothing in a file, since what it is made from is not there: what is composed where it
    is."""
    instance, database = there
    (plain,) = rendered([database], platform).values()
    observed = Observed(required={"instance": [instance], "database": [plain]})
    return offline.parts(identity.of_file(claim, kind.compose(claim, observed, platform)))


def _rolled(folder: Path, crank: str, package: Path, functions: Path) -> int:
    """What Crossplane would do with a composite that is there and now wants larger machines."""
    claim = yaml.safe_load((package / "namespaced" / "examples" / "workloadclusters.yaml").read_text())
    _, before = _rendered(
        crank, package, functions, composite(claim, "namespaced"), "namespaced", "workloadclusters", folder
    )
    claim["spec"]["parameters"]["cpuCores"] = 12
    observed = folder / "observed.yaml"
    observed.write_text("\n---\n".join(map(json.dumps, before)))
    arguments = ("-o", str(observed))
    _, after = _rendered(
        crank, package, functions, composite(claim, "namespaced"), "namespaced", "workloadclusters", folder, *arguments
    )
    old, new = (
        {objects.name(each) for each in some if each["kind"] == "SimulatedMachineTemplate"} for some in (before, after)
    )
    assert old < new, (old, new)
    deployment = next(each for each in after if each["kind"] == "MachineDeployment")
    assert deployment["spec"]["template"]["spec"]["infrastructureRef"]["name"] in new - old, deployment
    return len(new)


def _rendered(
    crank: str, package: Path, functions: Path, made: Object, form: Form, plural: str, folder: Path, *more: str
) -> tuple[Object, list[Object]]:
    source = folder / "composite.yaml"
    made["metadata"]["uid"] = "6f4ad05e-9d0b-4a9e-8a5c-0e2a4e1a2b3c"
    _write(source, made)
    parts = [str(package / form / each / f"{plural}.yaml") for each in ("compositions", "definitions")]
    text = _run(crank, "render", str(source), parts[0], str(functions), "--xrd", parts[1], *more)
    first, *rest = [each for each in yaml.safe_load_all(text) if each]
    return first, rest


def _reached(package: Path, address: str) -> Object:
    """The package's Function, which render is to find where it runs."""
    documents = yaml.safe_load_all((package / "install" / "function.yaml").read_text())
    (found,) = [each for each in documents if each["kind"] == "Function"]
    found["metadata"]["annotations"] = {
        "render.crossplane.io/runtime": "Development",
        "render.crossplane.io/runtime-development-target": address,
    }
    return found


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout


def _write(path: Path, obj: Any) -> None:
    path.write_text(yaml.safe_dump(obj))


def _different(found: dict[str, Object], expected: dict[str, Object]) -> str:
    if found.keys() != expected.keys():
        return f"parts: {sorted(found)}, and render prints {sorted(expected)}"
    name = next(each for each in expected if found[each] != expected[each])
    return (
        f"{name}: {json.dumps(found[name], sort_keys=True)}, and render: {json.dumps(expected[name], sort_keys=True)}"
    )

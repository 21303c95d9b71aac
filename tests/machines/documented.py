"""The commands of docs/kvm.md, as they stand there, by somebody who reads it from the top: from the host that is ready
to the first pod, and until nothing is left.

What the page has done before, installing packages and building the image, is done outside, where packages can be had.
Images of pods come from a mirror, as where there is no way out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

from steelyard.installation.datadir import DataDir
from steelyard.kube.objects import Object
from tests.harness import ROOT
from tests.machines import leftovers, registry
from tests.machines.cluster import HOST_ADDRESS
from tests.machines.story import Memory, Stage, tell, until

PAGE: Final = ROOT / "docs" / "kvm.md"
VERSION: Final = "v1.34.4"
"""Of Kubernetes, on the page."""
PLACE: Final = Path("/var/lib/steelyard")
"""Where images and machines are when the platform file does not say."""
POD: Final = "docker.io/library/nginx:1.29"
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS: Final = 3600.0
_OF_USERS: Final = ("STEELYARD_", "XDG_", "KUBECONFIG")
_UP: Final = re.compile(r"^steelyard up\b.*\n", re.MULTILINE)


class Documented:
    def __init__(self, folder: Path, kubectl: str, archive: Path, patience: float) -> None:
        self._folder = folder
        self._archive = archive
        self._patience = patience
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        programs = (str(Path(sys.executable).parent), str(Path(kubectl).parent))
        # Nothing of whoever runs this: neither their platform nor their clusters are meant.
        kept = {name: each for name, each in os.environ.items() if not name.startswith(_OF_USERS)}
        self._environment = {**kept, "HOME": str(self._home), "PATH": ":".join((*programs, os.environ["PATH"]))}
        self._before: dict[str, list[str]] = {}
        self._platform: subprocess.Popen[bytes] | None = None

    def run(self, memory: Memory) -> tuple[int, int]:
        stages = [
            Stage("1", "the host", self._host),
            Stage("2", "the image", self._image),
            Stage("3", "the first cluster", self._cluster),
            Stage("4", "the first pod", self._pod),
            Stage("5", "deleted: nothing left", self._delete),
        ]
        with registry.serving(self._archive, HOST_ADDRESS) as url:
            self._mirror = url
            try:
                return tell(stages, memory)
            finally:
                if self._platform is not None:
                    self._platform.terminate()
                    self._platform.wait()

    def _host(self) -> str:
        self._before = leftovers.listing([PLACE / "machines"])
        settings, for_emulated = (yaml.safe_load(text) for text in blocks("The host", "yaml"))
        kvm: Object = for_emulated["kvm"] if self._patience > 1 else {}
        settings["kvm"] = {**kvm, "registryMirrors": {"docker.io": [self._mirror]}}
        (self._home / "platform.yaml").write_text(yaml.safe_dump(settings))
        # The first block installs, outside. What is left to mend would be its exit code.
        return self._typed(blocks("The host")[1])

    def _image(self) -> str:
        listed = self._typed(re.sub(r"^sudo .*\n", "", blocks("The image")[0], flags=re.MULTILINE))
        assert VERSION in listed, listed
        return listed

    def _cluster(self) -> str:
        create, look = blocks("The first cluster")
        with (self._folder / "platform.log").open("wb") as log:
            self._platform = subprocess.Popen(
                ["steelyard", "up"], cwd=self._home, env=self._environment, stdout=log, stderr=log
            )
        data_dir = DataDir(self._home / ".local" / "share" / "steelyard")
        until(lambda: data_dir.running() is not None, "the platform runs", seconds=60)
        said = self._typed(_UP.sub("", create))
        named = "kubectl get kvmmachines -l cluster.x-k8s.io/control-plane -o jsonpath='{.items[*].metadata.name}'"
        machine = self._typed(look.splitlines()[0] + f"\n{named}")
        shown = self._typed(look.replace("NAME", machine))
        assert "cloud-init" in shown, shown
        return said

    def _pod(self) -> str:
        said = self._typed(blocks("The first pod")[0])
        shop = "kubectl --kubeconfig shop.kubeconfig"
        address = self._typed(f"{shop} get pods -l app=web -o jsonpath='{{.items[0].status.podIP}}'")
        asked = f"{shop} get --raw /api/v1/namespaces/default/services/web:80/proxy/"
        answered = self._typed(asked)
        assert answered.strip() == registry.ANSWER, answered
        return f"{said}{address} says through its Service: {answered}"

    def _delete(self) -> str:
        said = self._typed(blocks("The first pod")[1])
        after = leftovers.listing([PLACE / "machines"])
        assert not leftovers.differences(self._before, after), leftovers.differences(self._before, after)
        return f"{said}before: {leftovers.counts(self._before)}; after: {leftovers.counts(after)}"

    def _typed(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\nexit code {done.returncode}:\n{done.stdout}"
        return done.stdout


def blocks(heading: str, language: str = "sh") -> list[str]:
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [text for name, text in _BLOCK.findall(section) if name == language]

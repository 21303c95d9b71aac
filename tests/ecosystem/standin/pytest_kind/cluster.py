"""`KindCluster` as pytest-kind has it, for the platform named by STEELYARD_KUBECONFIG; kubectl is that of KUBECTL."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class KindCluster:
    def __init__(self, name: str, image: str | None = None) -> None:
        self.name = name
        self.kubeconfig_path = Path(os.environ["STEELYARD_KUBECONFIG"])
        self.kubectl_path = Path(os.environ["KUBECTL"])

    def create(self) -> None:
        """It is there."""

    def delete(self) -> None:
        """Whoever started it ends it."""

    def kubectl(self, *arguments: str) -> str:
        command = [str(self.kubectl_path), "--kubeconfig", str(self.kubeconfig_path), *arguments]
        return subprocess.check_output(command, encoding="utf-8")

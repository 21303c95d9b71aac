"""The upstream Go modules the facts come from, each pinned by version and by the checksum Go gives its content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

TOOLS: Final = Path(__file__).resolve().parents[1]

MODULES: Final = {
    "k8s.io/api": ("v0.34.4", "h1:Z5hsoQcZ2yBjelb9j5JKzCVo9qv9XLkVm5llnqS4h+0="),
    "k8s.io/apimachinery": ("v0.34.4", "h1:C5SiSzLEMyWIk53sSbnk0WlOOyqv/MFnWvuc/d6M+xc="),
    "k8s.io/apiextensions-apiserver": ("v0.34.4", "h1:TAh2mEduc27sR7lfEthOL2oNeQuux9pQCEJCVC9Gxrs="),
    "k8s.io/kube-aggregator": ("v0.34.4", "h1:b2Y07+HfImko/ru5BSMsWOSndGJ7+gc5AyZe/rgc+wI="),
    "k8s.io/kubernetes": ("v1.34.4", "h1:Yy6R4QB8C9kJPp25GFqEvX5XQwY5qzKeqD0Xx6oAcmk="),
    "github.com/crossplane-contrib/provider-sql": ("v0.16.0", "h1:MLv/ihuoTXX0VtAAD+slgBEJ6iTg4MNnI/0Y9pSTQrg="),
    "github.com/external-secrets/external-secrets": ("v1.3.2", "h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ="),
    "sigs.k8s.io/cluster-api": ("v1.11.3", "h1:apxfugbP1X8AG7THCM74CTarCOW4H2oOc6hlbm1hY80="),
}


@cache
def go_command() -> str:
    build = [sys.executable, str(TOOLS / "upstream" / "build.py"), "go"]
    return subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@cache
def folder(module: str) -> Path:
    """Where Go keeps the module's files, downloading it first if needed."""
    version, checksum = MODULES[module]
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [go_command(), "mod", "download", "-json", f"{module}@{version}"],
            cwd=elsewhere,
            env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off", "GOTOOLCHAIN": "local"},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0 or answer.get("Sum") != checksum:
        reason = answer.get("Error") or f"its checksum is {answer.get('Sum')}, expected {checksum}"
        raise SystemExit(f"cannot use Go module {module}@{version}: {reason}")
    return Path(answer["Dir"])

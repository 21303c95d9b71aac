"""Bootstrap data as kubeadm's bootstrap provider writes it, for machines that have no kubeadm: a stand-in comes along.

The one that fails does so as kubeadm does: an error and its causes on standard error, here in red, longer than anybody
reads, with the secrets in it that it was given, and then what it advises each time.
"""

from __future__ import annotations

from typing import Final

from steelyard.controllers.lifecycle.certificates import File
from steelyard.controllers.lifecycle.kubeadmconfig import cloudinit

TOKEN: Final = "q1w2e3.a1b2c3d4e5f6a7b8"
PASSWORD: Final = "correct-horse-7"
ENDED: Final = "what comes after kubeadm"
SAID: Final = "stand-in of kubeadm: join --config"
FAILED: Final = "error execution phase preflight: couldn't validate the identity of the API Server:"
CAUSE: Final = "[ERROR CheckNo1]: token ****** is unknown, and so is ****** of registry.example.org"
"""The first of the causes, as it is shown: a token and a password of the bootstrap data are in it."""

_SUCCEEDS: Final = f"""#!/bin/sh
echo "{SAID.partition(":")[0]}: $* on $(hostname), told to be {{{{ ds.meta_data.local_hostname }}}}"
"""
_FAILS: Final = f"""#!/bin/sh
exec >&2
echo "[preflight] Running pre-flight checks"
printf '\\033[31;1m%s\\033[0m\\r\\n' "{FAILED}"
words="is unknown, and so is {PASSWORD} of registry.example.org"
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    printf '\\t[ERROR CheckNo%s]: token {TOKEN} %s\\n' $number "$words"
done
echo '[preflight] If you know what you are doing, you can make a check non-fatal'
echo 'To see the stack trace of this error execute with --v=5 or higher'
exit 1
"""
_JOINING: Final = f"""apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {{bootstrapToken: {{token: {TOKEN}, apiServerEndpoint: "10.0.0.10:6443"}}}}
"""


def succeeding() -> str:
    return _joining(_SUCCEEDS)


def failing() -> str:
    return _joining(_FAILS)


def _joining(kubeadm: str) -> str:
    files = [
        File("/usr/local/bin/kubeadm", kubeadm, permissions="0755"),
        File("/etc/registry.conf", f"password: {PASSWORD}\n", permissions="0600"),
    ]
    return cloudinit.join({"postKubeadmCommands": [f"echo {ENDED}"]}, files, _JOINING)

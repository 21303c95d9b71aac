#!/bin/sh
# Makes the virtual environment $1 and installs $2 into it, versions from constraints.txt. $3, if given, are programs that
# the tests use, as "program" or "program=package"; $4 is an extra that needs a compiler, left out where there is none. Asks
# apt for what is missing on a bare Debian or Ubuntu; on other systems it says what to install.
set -eu
venv=$1
what=$2
programs=${3:-}
compiled=${4:-}

sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo

python=""
for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Steelyard needs Python 3.11 or later; python3 here is $(python3 --version 2>&1 || true). Install it and try again." >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if command -v apt-get >/dev/null 2>&1; then
        echo "Installing python$version-venv, which makes virtual environments (Debian keeps it apart from Python)." >&2
        $sudo apt-get update -qq
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$version-venv" >/dev/null
    else
        echo "Python's venv module is missing. Install it (package python$version-venv or alike) and try again." >&2
        exit 1
    fi
fi

# The packages "$1", each by itself, for the reason "$2".
install() {
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "$1: not installed; the tests that need it will be skipped and say so." >&2
        return 0
    fi
    echo "Installing $1, which $2." >&2
    $sudo apt-get update -qq || true
    for package in $1; do
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
            echo "Could not install $package; the tests that need it will be skipped and say so." >&2
    done
}

# Those of the superuser are not in everybody's path.
PATH=$PATH:/usr/sbin:/sbin
missing=""
for program in $programs; do
    command -v "${program%%=*}" >/dev/null 2>&1 || missing="$missing ${program#*=}"
done
[ -z "$missing" ] || install "${missing# }" "some tests use"

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing Steelyard into $venv ..." >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable "$what"

if [ -n "$compiled" ]; then
    if ! { command -v gcc && pkg-config --exists libvirt && [ -e "$("$python" -c \
        'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ]; } >/dev/null 2>&1; then
        install "gcc libc6-dev pkg-config libvirt-dev python3-dev" "the extra $compiled is built with"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
        --editable ".[$compiled]" ||
        echo "Could not build the extra $compiled; the tests that need it will be skipped and say so." >&2
fi

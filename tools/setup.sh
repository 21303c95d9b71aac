#!/bin/sh
# Makes the virtual environment $1 and installs $2 into it, versions from constraints.txt. $3, if given, are programs that
# the tests use. Asks apt for what is missing on a bare Debian or Ubuntu; on other systems it says what to install.
set -eu
venv=$1
what=$2
programs=${3:-}

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

for program in $programs; do
    command -v "$program" >/dev/null 2>&1 && continue
    if command -v apt-get >/dev/null 2>&1; then
        echo "Installing $program, which some tests use." >&2
        { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$program" >/dev/null; } ||
            echo "Could not install $program; the tests that need it will be skipped and say so." >&2
    else
        echo "$program is not installed; the tests that need it will be skipped and say so." >&2
    fi
done

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing Steelyard into $venv ..." >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable "$what"

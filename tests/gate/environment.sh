#!/usr/bin/env bash
# environment.sh FOLDER [VERSION]
#
# Makes the virtual environment FOLDER of this checkout from requirements.lock, and the package itself, editable.
# VERSION is the one Python wanted, such as 3.13; without it any from 3.11 on will do, the oldest first.
# FOLDER/ready is written last and says what the environment was made from: an interrupted or outdated one is made
# anew, and one whose lock did not change only gets its console scripts again.
# Exits 3, with a sentence, when no such Python is on this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
wanted=${2:-}

# 1 line for each python that might do: every match on PATH (a first one may be a shim that runs nothing), then pyenv's.
candidates() {
    local version
    for version in ${wanted:-3.11 3.12 3.13 3.14}; do
        type -ap "python$version" || true
        ls -d "$(pyenv root 2>/dev/null || echo ~/.pyenv)/versions/$version".*/bin/python3 2>/dev/null || true
    done
    type -ap python3 || true
}

# Prints the version and exits 0 if this Python runs, is new enough and can make an environment.
suits() {
    "$1" -I -c '
import ensurepip, sys, venv
minor = "%d.%d" % sys.version_info[:2]
sys.exit(minor != sys.argv[1] if sys.argv[1] else sys.version_info < (3, 11))
' "$wanted" 2>/dev/null
}

find_python() {
    local candidate
    while read -r candidate; do
        if suits "$candidate"; then
            echo "$candidate"
            return
        fi
    done < <(candidates)
    echo "no Python ${wanted:-3.11 or newer} with its venv module is on this machine" >&2
    [ -n "$wanted" ] || echo "on Debian or Ubuntu: sudo apt-get install python3 python3-venv" >&2
    exit 3
}

# Runs a step with its output kept back, and shows the end of it when the step fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        rm -f "$log"
        echo "making $folder failed at: $*" >&2
        exit 1
    fi
    rm -f "$log"
}

# What the lock says of one package.
locked() {
    awk -v name="$1" 'index($0, name "==") == 1 { found = 1 } found { print } found && !/\\$/ { exit }' requirements.lock
}

# uv does in a third of the time what pip does. It knows nothing of pip's own configuration: where that is what leads to
# the index, pip does it after all.
install_locked() {
    local only
    only=$(mktemp)
    locked uv >"$only"
    quietly "$folder/bin/python" -m pip install --no-deps --require-hashes -r "$only"
    rm -f "$only"
    "$folder/bin/python" -m uv pip install --quiet --python "$folder/bin/python" --no-deps --require-hashes \
        --compile-bytecode -r requirements.lock 2>/dev/null ||
        quietly "$folder/bin/python" -m pip install --no-deps --require-hashes -r requirements.lock
}

exec 9<requirements.lock
flock 9 # two makes at once: the second finds the work done

made_from="$(sha256sum <requirements.lock | cut -d' ' -f1) $PWD/$folder"
if [ "$(cat "$folder/ready" 2>/dev/null)" != "$made_from" ] || ! "$folder/bin/python" -c pass 2>/dev/null; then
    python=$(find_python)
    echo "making $folder with $("$python" -V) from requirements.lock: half a minute at most"
    rm -rf "$folder"
    quietly "$python" -m venv "$folder"
    install_locked
    # Its .pth file costs every start of Python 5 to 8 ms, and nothing here needs it.
    quietly "$folder/bin/python" -m pip uninstall --yes setuptools
fi
rm -f "$folder/ready"
quietly "$folder/bin/python" -m pip install --no-deps --no-build-isolation --editable .
echo "$made_from" >"$folder/ready"

#!/bin/sh
# Sets a fresh machine up: virtual environment, locked packages and what PyPI does not have: with --nginx the gateway of rehearsals, with
# --node what a real node needs, with --tests the programs that tests run.
# It is silent when nothing changed. Each step that fails says what to do.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
export PIP_RETRIES="${PIP_RETRIES:-8}" PIP_DEFAULT_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-60}"
export UV_HTTP_RETRIES="${UV_HTTP_RETRIES:-8}" UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-120}"
trap 'echo "set-up interrupted; run the same command to continue" >&2; exit 130' INT

fail() {
    echo "set-up failed: $1" >&2
    exit 1
}

# A machine that has just started updates itself. One package source of several that does not answer need not have the packages.
apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    set -- -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 -qq "$@"
    apt-get update -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 -qq >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1
}

make_venv() {
    .venv/bin/python -c "" 2>/dev/null || "$python" -m venv --clear .venv >/dev/null 2>&1
}

version=$("$python" -c 'import sys; print(sys.version.split()[0])') || fail "$python does not run; run make PYTHON=/path/to/python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python $version is too old, 3.11 or newer is needed; run make PYTHON=/path/to/python3.12"
for file in requirements.lock pyproject.toml; do
    [ -r "$file" ] || fail "$PWD/$file cannot be read; restore it with git checkout, then run it again"
done
wanted="$version $PWD $(cat requirements.lock pyproject.toml | cksum)"
if [ "$(cat .venv/.inferplan-ready 2>/dev/null)" != "$wanted" ]; then
    echo "  virtual environment ..."
    venv=python${version%.*}-venv # Debian splits venv off its python3.
    make_venv || { apt_install "$venv" && make_venv; } || fail "install $venv, then run it again"
    echo "  packages of requirements.lock, by their hashes ..."
    [ -x .venv/bin/pip ] || .venv/bin/python -m ensurepip --upgrade >/dev/null || fail "delete .venv, then run it again"
    awk '/^[^ ]/ { uv = /^uv==/ } uv && !/^ *#/' requirements.lock >.venv/uv.txt
    # Many containers set PYTHONDONTWRITEBYTECODE; without bytecode on disk a plan takes twice as long.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.txt &&
        .venv/bin/uv --quiet pip sync --python .venv/bin/python --compile-bytecode --require-hashes requirements.lock ||
        fail "check the network and the package index, then run it again"
    echo "  inferplan itself, editable ..."
    .venv/bin/uv --quiet pip install --python .venv/bin/python --no-deps --no-build-isolation --editable . || fail "read the lines above"
    # Python 3.11 reads .pth files in the locale's encoding, so the folder's name is written in ASCII.
    .venv/bin/python -I -c 'import os; print(f"import os, sys; sys.path.append(os.fsdecode({os.fsencode(os.getcwd())!r}))")' |
        tee .venv/lib/python*/site-packages/_inferplan.pth >/dev/null
    .venv/bin/python -m compileall -q inferplan || fail "read the lines above"
    echo "$wanted" >.venv/.inferplan-ready
fi
PATH=$PATH:/usr/sbin:/sbin
packages="containerd runc containernetworking-plugins iproute2 iptables ipset"
has_node_programs() {
    { command -v containerd && command -v runc && command -v iptables && command -v ipset && [ -x /usr/lib/cni/bridge ]; } >/dev/null
}
if [ "${1:-}" = --node ]; then
    has_node_programs ||
        # shellcheck disable=SC2086
        { echo "  containerd, the container runtime of the real node ..." && apt_install $packages; } ||
        fail "install $packages (as root: apt-get install $packages), then run it again"
    exit 0
fi
if [ "${1:-}" = --nginx ]; then
    command -v nginx >/dev/null || { echo "  nginx, the gateway of rehearsals ..." && apt_install nginx-light; } ||
        echo "  going on without nginx, so no model will answer: install it (Debian: sudo apt-get install nginx-light, macOS: brew install nginx)" >&2
    exit 0
fi
[ "${1:-}" = --tests ] || exit 0
# Forecasts are tested with the extra predict, which has a lock of its own; no interpreter of it is newer than 3.13.
if ! .venv/bin/python -c "import aiconfigurator_core" 2>/dev/null && .venv/bin/python -c 'import sys; sys.exit(sys.version_info >= (3, 14))'; then
    echo "  packages of requirements-predict.lock, by their hashes ..."
    .venv/bin/uv --quiet pip install --python .venv/bin/python --require-hashes -r requirements-predict.lock ||
        fail "check the network and the package index, then run it again"
fi
missing=$(for pair in nginx:nginx-light rclone:rclone curl:curl chromium:chromium wrk:wrk promtool:prometheus debootstrap:debootstrap docker-registry:docker-registry; do
    command -v "${pair%:*}" >/dev/null || echo "${pair#*:}"
done)
# tritonserver's Python backend loads the interpreter as a library.
ls /usr/lib/*/libpython3.*.so.1.0 >/dev/null 2>&1 || missing="$missing libpython3-dev python3-venv"
[ "$(uname)" != Linux ] || has_node_programs || missing="$missing $packages"
# shellcheck disable=SC2086 # one word per package
[ -z "$missing" ] || apt_install $missing ||
    echo "  going on without" $missing: "install them as root with apt-get; the tests that run them are skipped and say so" >&2

#!/usr/bin/env bash
# containers/set_up.sh [gpu]: inside an image: install Python if it is missing, then the packages of the lock files.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    apt-get update
    apt-get install -y --no-install-recommends python3 python3-venv
    rm -rf /var/lib/apt/lists/*
fi
PIP_NO_CACHE_DIR=1 scripts/venv.sh "$@"
.venv/bin/python -m compileall -q arena marl opponents # an image may be read-only

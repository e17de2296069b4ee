#!/usr/bin/env bash
# ./test.sh [pytest arguments]: everything that must be right before a commit, or just the tests asked for.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
scripts/venv.sh dev
if [ $# -eq 0 ]; then
    .venv/bin/python -m ruff check .
    .venv/bin/python -m ruff format --check .
    set -- -q -n 2 --dist loadfile --no-loadscope-reorder
fi
exec .venv/bin/python -m pytest "$@"

#!/usr/bin/env bash
# ./test.sh [pytest arguments]: everything that must be right before a commit, or just the tests asked for.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
scripts/venv.sh dev
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi
# Bytecode is kept even where the environment forbids it: workers, and hundreds of processes that tests start, share it.
unset PYTHONDONTWRITEBYTECODE
.venv/bin/python -m ruff check .
.venv/bin/python -m ruff format --check .
# mypy runs beside the tests; its report is shown only if it fails.
report=$(mktemp)
trap 'rm -f "$report"' EXIT
.venv/bin/python -m mypy >"$report" 2>&1 &
mypy=$!
status=0
# One worker more than two cores: the longest tests wait for ranks, timeouts and browsers; a fourth took longer (two ARM cores).
.venv/bin/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder || status=$?
wait "$mypy" || { status=$?; cat "$report" >&2; }
exit "$status"

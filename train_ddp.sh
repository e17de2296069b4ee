#!/usr/bin/env bash
# ./train_ddp.sh [flags]: set up .venv on the first start, then run with the flags given. Works from any folder.
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# sbatch runs a copy of this script that stands elsewhere.
if [ ! -f "$root/pyproject.toml" ] && [ -n "${SLURM_SUBMIT_DIR:-}" ]; then root=$SLURM_SUBMIT_DIR; fi
"$root/scripts/venv.sh"
exec "$root/.venv/bin/python" -m marl demo "$@"

#!/usr/bin/env bash
# ./train_ddp.sh [flags]: set up .venv on the first start, then train with the flags given. Works from any folder.
#
# One rank per GPU that CUDA_VISIBLE_DEVICES leaves, else one per two cores. The environment says more:
#   NPROC=2                  ranks on this machine
#   NNODES NODE_RANK MASTER_ADDR MASTER_PORT    several machines, the same command on each
#   CONFIG=configs/x.yaml    a configuration; flags count more than it
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# sbatch runs a copy of this script that stands elsewhere.
if [ ! -f "$root/pyproject.toml" ] && [ -n "${SLURM_SUBMIT_DIR:-}" ]; then root=$SLURM_SUBMIT_DIR; fi
"$root/scripts/venv.sh"
exec "$root/.venv/bin/python" -m marl train --distributed ${CONFIG:+--config "$CONFIG"} "$@"

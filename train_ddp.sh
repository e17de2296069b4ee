#!/usr/bin/env bash
#SBATCH --job-name=snakes --open-mode=append
#SBATCH --requeue --signal=B:USR1@120
# ./train_ddp.sh [flags]: set up .venv on the first start, then train with the flags given. Works from any folder.
# sbatch --nodes=2 ... train_ddp.sh [flags]: the same on a SLURM cluster, from this folder; see docs/cluster.md.
#
# One rank per GPU that CUDA_VISIBLE_DEVICES leaves; without a GPU one per core, at most 16 (below 4: one process).
# The environment says more:
#   NPROC=2                  ranks on this machine
#   NNODES NODE_RANK MASTER_ADDR MASTER_PORT    several machines, the same command on each
#   CONFIG=configs/x.yaml    a configuration, or its name; flags override it
#   CONTAINER="apptainer run --nv snakes.sif"    what stands for the program in .venv: see docs/cluster.md
set -euo pipefail
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
if [ ! -f "$root/pyproject.toml" ] && [ -n "${SLURM_SUBMIT_DIR:-}" ]; then
    root=$SLURM_SUBMIT_DIR       # sbatch runs a copy of this script that stands elsewhere
    unset "${!SLURM_STEP@}"      # if sbatch was called inside a step, these are of that one
fi
if [ ! -f "$root/pyproject.toml" ]; then
    echo "snakes: $root is not the folder of train_ddp.sh; sbatch it from there" >&2
    exit 2
fi
program=("$root/.venv/bin/python" -m marl)
if [ -n "${CONTAINER:-}" ]; then
    read -ra program <<<"$CONTAINER"
else
    "$root/scripts/venv.sh"
fi
if [ -n "${SLURM_JOB_ID:-}" ]; then source "$root/scripts/slurm.sh"; fi
exec "${program[@]}" train --distributed ${CONFIG:+--config "$CONFIG"} "$@"

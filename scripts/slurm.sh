# shellcheck shell=bash
# Sourced by train_ddp.sh in a SLURM job.
#
# The batch script starts one launcher per node with srun and waits for them. USR1, which SLURM sends before the time is
# up, has the run saved and the job queued again; TERM has it saved. In the step that srun starts, SLURM's variables
# become those that the launcher reads.

say() { echo "snakes: $*" >&2; }

# Whether --$1 is among the other words, in any spelling.
given() {
    local flag=__$1 word
    shift
    for word; do
        word=${word%%=*}
        if [ "${word//-/_}" = "$flag" ]; then return 0; fi
    done
    return 1
}

# The first node of a list: its name, or where names do not resolve the address that SLURM itself uses.
first_node() {
    local name
    read -r name < <(scontrol show hostnames "$1")
    if getent hosts "$name" >/dev/null; then
        echo "$name"
    else
        scontrol show node "$name" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p'
    fi
}

# Ask for a save, once: ranks take a second TERM as "at once". It goes to the job's steps and not to this script;
# srun itself would answer TERM by killing them.
stop_steps() {
    interrupted=1
    if [ "$1" = USR1 ]; then requeue=1; else requeue=; fi
    if [ -z "$stopping" ]; then
        stopping=1
        say "$1 came: the run saves and ends"
        scancel --signal=TERM "$SLURM_JOB_ID" || true
    fi
}

if [ -n "${SLURM_STEP_ID:-}" ]; then
    nodes=${SLURM_STEP_NUM_NODES:-1}
    if [ "${SLURM_STEP_NUM_TASKS:-1}" -gt "$nodes" ]; then
        [ "$SLURM_PROCID" -ne 0 ] || say "$SLURM_STEP_NUM_TASKS tasks on $nodes nodes, but a task starts all ranks of" \
            "its node: use srun --ntasks-per-node=1, and NPROC=N for N ranks on a node"
        exit 2
    fi
    if [ "$nodes" -gt 1 ] && [ -z "${NNODES:-}" ]; then
        export NNODES=$nodes NODE_RANK=$SLURM_NODEID
        export MASTER_ADDR=${MASTER_ADDR:-$(first_node "$SLURM_STEP_NODELIST")}
        export MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))} # below the ports that systems give away
        [ "$NODE_RANK" -ne 0 ] ||
            say "SLURM job $SLURM_JOB_ID: $NNODES nodes ($SLURM_STEP_NODELIST) meet at $MASTER_ADDR:$MASTER_PORT"
    fi
elif [ ! -t 0 ]; then # at a terminal somebody works inside an allocation: srun is up to them
    name=slurm_$SLURM_JOB_ID
    if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
        name=slurm_${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
        given seed "$@" || set -- "$@" --seed "$SLURM_ARRAY_TASK_ID"
    fi
    # With a name of its own a job that is queued again finds its run and resumes it.
    given run_name "$@" || set -- "$@" --run_name "$name"
    gpus=()
    if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then # meant for more tasks than ours, which takes all of its node's
        gpus=(--gpus-per-node="${SLURM_GPUS_ON_NODE:-0}")
        unset SLURM_GPUS_PER_TASK
    fi
    stopping='' requeue='' interrupted=''
    for signal in USR1 TERM INT; do
        # shellcheck disable=SC2064 # the name of now
        trap "stop_steps $signal" "$signal"
    done
    # No bad exit ends the others: the node that leaves first may leave while node 0 still saves.
    srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpu-bind=none \
        --kill-on-bad-exit=0 ${gpus[@]+"${gpus[@]}"} "$root/train_ddp.sh" "$@" &
    while :; do
        interrupted=
        wait $! && status=0 || status=$?
        [ -n "$interrupted" ] || break # else it was a trap that ended the waiting
    done
    trap '' USR1 TERM INT
    if [ -n "$requeue" ] && [ "$status" -ne 0 ] && [ "$status" -ne 2 ]; then # 0: finished, 2: a mistake stays one
        if scontrol requeue "$SLURM_JOB_ID"; then
            say "job $SLURM_JOB_ID is queued again"
        else
            say "job $SLURM_JOB_ID cannot be queued again; to resume, sbatch it with the --run_name of its run"
        fi
    fi
    exit "$status"
fi

#!/usr/bin/env bash
# scripts/venv.sh [dev] [gpu]: make .venv what the lock files say, with the test packages if "dev" is given; with those of
# a GPU where there is one, and also elsewhere (an image, a login node) if "gpu" is given.
#
# What is installed in .venv is recorded in .venv/setup.<part>: the hash of everything it depends on, written last.
# When nothing has changed this costs a few milliseconds: no Python is started.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
root=$(pwd -P)
log=.venv/setup.log
supported='import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))'

fail() {
    echo "snakes: $*" >&2
    exit 2
}

hash_of() {
    if command -v sha256sum >/dev/null; then sha256sum; else cksum; fi
}

# The place and the interpreter count too: a moved folder or an upgraded Python breaks an environment.
wanted() {
    { echo "$root"; readlink -f .venv/bin/python || true; cat pyproject.toml requirements*.lock; } | hash_of
}

# Set stale to the parts that have to be installed.
find_stale() {
    local key part
    key=$(wanted)
    stale=()
    for part in "${parts[@]}"; do
        if [ ! -x .venv/bin/python ] || [ "$(cat ".venv/setup.$part" 2>/dev/null)" != "$key" ]; then
            # nvidia-smi can take seconds, so it is asked only when the GPU packages are not there yet.
            if [ "$part" != gpu ] || [[ $asked == *" gpu "* ]] || nvidia-smi -L >/dev/null 2>&1; then stale+=("$part"); fi
        fi
    done
}

# One set-up at a time; a second start waits here and then finds everything done.
lock() {
    if command -v flock >/dev/null; then
        exec 9>.venv/setup.lock
        flock 9
        return
    fi
    local holder
    until mkdir .venv/setup.lock.d 2>/dev/null; do
        holder=$(cat .venv/setup.lock.d/pid 2>/dev/null || true)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            fail "an earlier set-up was cut off; remove $root/.venv/setup.lock.d and start again"
        fi
        sleep 0.2
    done
    echo $$ >.venv/setup.lock.d/pid
    trap 'rm -rf .venv/setup.lock.d' EXIT
}

works_here() {
    .venv/bin/python -c "$supported" && [[ $(.venv/bin/pip --version) == *" $root/.venv/"* ]]
} >/dev/null 2>&1

make_venv() {
    local candidate python=
    for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c "$supported" >/dev/null 2>&1; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || fail "Python 3.10 to 3.13 is needed; python3 here is: $(python3 --version 2>&1 || true)"
    [ ! -L .venv ] || fail ".venv is a link, which Python's venv does not take; remove the link, it is then made here"
    find .venv -mindepth 1 -maxdepth 1 ! -name 'setup.lock*' -exec rm -rf {} +
    "$python" -m venv .venv >"$log" 2>&1 ||
        fail "could not make .venv (on Debian and Ubuntu: apt install python3-venv); see $root/$log"
}

# The last thing that pip says it does, in a few words.
current_step() {
    tail -n 40 "$log" 2>/dev/null | sed -nE \
        -e 's/^ *(Downloading|Using cached) ([^ ]+).*/\1 \2/p' -e 's/^(Collecting [^ ]+).*/\1/p' \
        -e 's/^(Building|Preparing|Installing) .*/\1 packages/p' | tail -n 1 | cut -c1-60
}

# On a terminal: one line with the elapsed seconds and the present step, until the script ends.
show_steps() {
    while kill -0 $$ 2>/dev/null; do
        printf '\r\033[Ksnakes: %d s  %s' "$SECONDS" "$(current_step)" >&2
        sleep 0.5
    done
}

hide_steps() {
    [ -n "$watcher" ] || return 0
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    watcher=
    printf '\r\033[K' >&2
}

install() {
    local code=0
    watcher=
    # Without the lock (file 9): it must not outlive this script.
    if [ -t 2 ]; then
        show_steps 9>&- &
        watcher=$!
    fi
    .venv/bin/python -m pip install --disable-pip-version-check "$@" >>"$log" 2>&1 || code=$?
    hide_steps
    [ $code -eq 0 ] ||
        fail "could not install ${stale[*]} packages: $(grep -m1 '^ERROR' "$log" || echo 'pip failed'); see $root/$log"
}

asked=" $* "
parts=(run gpu)
for part in "$@"; do
    [ "$part" = gpu ] || parts+=("$part")
done
find_stale
[ ${#stale[@]} -eq 0 ] && exit 0

mkdir -p .venv 2>/dev/null || fail "cannot write to $root, where .venv belongs"
if [ ! -w .venv ] || ! { : >>.venv/setup.lock; } 2>/dev/null; then
    read -r _ _ owner _ < <(ls -ld .venv)
    fail "cannot write to $root/.venv, which belongs to $owner and needs an update; use a clone of your own"
fi
lock
find_stale
[ ${#stale[@]} -eq 0 ] && exit 0

echo "snakes: setting up .venv (once, about a minute) ..." >&2
works_here || make_venv
files=()
for part in "${stale[@]}"; do
    rm -f ".venv/setup.$part"
    case $part in
        run) files+=(-r requirements.lock) ;;
        *) files+=(-r "requirements-$part.lock") ;;
    esac
done
: >"$log"
install "${files[@]}"
# setuptools is in the lock file, so nothing more has to be fetched to build with.
if [[ " ${stale[*]} " == *" run "* ]]; then install --no-deps --no-build-isolation -e .; fi
key=$(wanted)
for part in "${stale[@]}"; do
    echo "$key" >".venv/setup.$part.new"
    mv ".venv/setup.$part.new" ".venv/setup.$part"
done

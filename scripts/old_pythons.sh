#!/usr/bin/env bash
# scripts/old_pythons.sh: environments with old Pythons and numpys for tests/marl/export/test_old_pythons.py.
#
# For each Python from 3.6 to 3.13 that is on the PATH or in ~/.pyenv, one folder in ~/.cache/snakes_3v3/pythons with the
# oldest numpy that there is a wheel of. What cannot be had is left out: the test then skips that Python and says so.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
folder=$HOME/.cache/snakes_3v3/pythons
# numpys by Python, the oldest first; the second is the oldest with wheels for ARM.
numpys=("3.6 1.16.6 1.19.5" "3.7 1.16.6 1.19.5" "3.8 1.17.5 1.19.5" "3.9 1.19.5" "3.10 1.21.6" "3.11 1.23.5" "3.12 1.26.4" "3.13 2.1.3")

# Print a Python of this version that starts (a launcher of pyenv's may be there and fail).
find_python() {
    local candidate
    for candidate in "python$1" "$HOME"/.pyenv/versions/"$1".*/bin/"python$1"; do
        if "$candidate" -c 'import venv' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# By the pip of .venv: that of an old Python may not know the wheels of this machine.
install() {
    local version=$1 numpy=$2 target=$3 machine
    machine=$(uname -m)
    timeout 300 .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: --ignore-requires-python \
        --implementation cp --python-version "$version" --platform "manylinux1_$machine" \
        --platform "manylinux2010_$machine" --platform "manylinux2014_$machine" --platform "manylinux_2_17_$machine" \
        --target "$target" "numpy==$numpy" >/dev/null 2>&1
}

mkdir -p "$folder"
for line in "${numpys[@]}"; do
    read -r version candidates <<<"$line"
    place=$folder/python$version
    if "$place/bin/python" -I -c 'import numpy' >/dev/null 2>&1; then continue; fi
    rm -rf "$place"
    if ! python=$(find_python "$version"); then continue; fi
    "$python" -m venv "$place" --without-pip >/dev/null 2>&1 || continue
    for numpy in $candidates; do
        if install "$version" "$numpy" "$place/lib/python$version/site-packages"; then break; fi
    done
done

#!/bin/sh
# Install TileScope from a checkout into a new virtual environment. The image build and a test
# run this script.
#
#   docker/install.sh TARGET [EXTRAS]
#
# TARGET  directory of the environment, which must not exist
# EXTRAS  web (read and serve reports; default), engine (run models), or all
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 TARGET [web|engine|all]" >&2
  exit 2
fi
target=$1
extras=${2:-web}
source=$(cd "$(dirname "$0")/.." && pwd)

if [ -e "$target" ]; then
  echo "$target already exists; choose a new directory" >&2
  exit 2
fi

${PYTHON:-python3} -m venv "$target"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$target/bin/python" -m pip install --quiet --constraint "$source/constraints.txt" 'pip>=25.1'
"$target/bin/python" -m pip install --quiet --constraint "$source/constraints.txt" \
  --build-constraint "$source/constraints.txt" "$source[$extras]"
"$target/bin/tilescope" --version

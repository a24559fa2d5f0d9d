#!/bin/sh
# Compile the kernels of an environment for a named processor. The image build and a test run this
# script.
#
#   docker/warmup.sh TARGET FOLDER PROCESSOR
#
# TARGET     environment made by docker/install.sh; without the engine there is nothing to compile
# FOLDER     directory of the compiled kernels: NUMBA_CACHE_DIR of later runs. All users may read it;
#            it stays the property of the user who runs this script, root in an image
# PROCESSOR  LLVM's name of a processor that every host has the instructions of, such as haswell
set -eu

if [ $# -ne 3 ]; then
  echo "usage: $0 TARGET FOLDER PROCESSOR" >&2
  exit 2
fi
target=$1
folder=$2
processor=$3

mkdir -p -m 755 -- "$folder"
if ! "$target/bin/python" -c 'import numba' 2>/dev/null; then
  echo "no engine in $target: no kernels to compile"
  exit 0
fi
NUMBA_CACHE_DIR=$folder NUMBA_CPU_NAME=$processor "$target/bin/tilescope" warmup
# Code is linked into the process: nobody else may write it.
chmod -R u=rwX,go=rX -- "$folder"

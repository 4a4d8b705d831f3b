#!/bin/bash
# compile.sh ARGUMENTS is go build ARGUMENTS, which says how far it is: compiling Kubernetes takes minutes. The last argument
# is the package.
set -euo pipefail
module=()
for argument; do
  case $argument in -modfile=*) module=("$argument") ;; esac
done
modules='/^go: downloading / { if (++got % 50 == 0) { printf "   %d modules downloaded\n", got; fflush() } next }'
all=$("${GO:-go}" list "${module[@]}" -deps "${!#}" 2> >(awk "$modules { print }" >&2) | wc -l)
# With -v go build prints the path of each package that it compiles. What has a space or a colon is an error.
"${GO:-go}" build -v "$@" 2>&1 | awk -v all="$all" "$modules"' /^[^ :]+$/ { if (++n % 100 == 0) { printf "   %d of %d packages compiled\n", n, all; fflush() } next } { print }'

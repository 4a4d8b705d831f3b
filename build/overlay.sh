#!/usr/bin/env bash
# overlay.sh PATCH DIR writes DIR/overlay.json, for go build -overlay: the files that PATCH changes stand in DIR as it leaves
# them, and the tree stays as it is.
set -euo pipefail
patch=$1 dir=$2
[ -f "$patch" ] || { echo "$patch: there is no such patch" >&2; exit 1; }
rm -rf "$dir"
mkdir -p "$dir"
files=$(sed -n 's|^+++ b/||p' "$patch")
for f in $files; do
	mkdir -p "$dir/$(dirname "$f")"
	cp "$f" "$dir/$f"
done
command patch -s -d "$dir" -p1 <"$patch" || { echo "$patch no longer applies: write it again on top of this tree" >&2; exit 1; }
{
	echo '{"Replace": {'
	comma=
	for f in $files; do
		printf '%s"%s": "%s"\n' "$comma" "$PWD/$f" "$(cd "$dir" && pwd)/$f"
		comma=,
	done
	echo '}}'
} >"$dir/overlay.json"

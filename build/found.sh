#!/usr/bin/env bash
# found.sh FIELD LOG says whether the field is above 0 in the JSON line at the end of the log.
set -euo pipefail
last=$(tail -n 2 "$2" | grep '^{') || { echo "$2: the last line is no JSON" >&2; exit 1; }
n=$(sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" <<<"$last")
[ "${n:-0}" -gt 0 ] || exit 1
echo "found: $1 is $n"
grep -E '^(HARM|LEFT)' "$2" | tail -n 1 | cut -c1-200

#!/usr/bin/env bash
# found.sh FIELD LOG [TEXT] says whether the field is above 0 in the JSON line at the end of the log, and a line HARM or LEFT
# has the text.
set -euo pipefail
field=$1 log=$2 text=${3-}
last=$(tail -n 2 "$log" | grep '^{') || { echo "$log: the last line is no JSON" >&2; exit 1; }
n=$(sed -n "s/.*\"$field\":\([0-9]*\).*/\1/p" <<<"$last")
[ "${n:-0}" -gt 0 ] || { echo "$log: $field is ${n:-not there}: want more than 0" >&2; exit 1; }
line=$(grep -E '^(HARM|LEFT)' "$log" | grep -F -- "$text" | tail -n 1) || { echo "$log: no line HARM or LEFT has $text" >&2; exit 1; }
echo "found: $field is $n"
cut -c1-200 <<<"$line"

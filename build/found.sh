#!/usr/bin/env bash
# found.sh FIELDS LOG says whether one of the fields, separated by commas, is above 0 in the JSON of the log's last line.
set -euo pipefail
last=$(tail -n 2 "$2" | grep '^{') || { echo "$2: the last line is no JSON" >&2; exit 1; }
for field in ${1//,/ }; do
	n=$(sed -n "s/.*\"$field\":\([0-9]*\).*/\1/p" <<<"$last")
	if [ "${n:-0}" -gt 0 ]; then
		echo "found: $field is $n"
		grep -m 1 -E '^(HARM|LEFT)' "$2" | cut -c1-200 || true
		exit 0
	fi
done
exit 1

#!/bin/sh
# Says what version this tree has. A commit that RELEASES names has that version. Any other comes after the last release:
# v0.1.1-dev.12.gdeadbee is 12 commits after v0.1.0, and sorts between v0.1.0 and v0.1.1. Changes that are not committed add
# ".dirty".
set -eu
cd "$(dirname "$0")/.."
head=$(git rev-parse HEAD 2>/dev/null) || { echo v0.0.0-dev; exit; }
dirty=
git diff-index --quiet HEAD -- 2>/dev/null || dirty=.dirty
# shellcheck disable=SC2046 # two words: the version and the commit
set -- $(awk '/^v/ {version = $1; commit = $2} END {print version ? version " " commit : "v0.0.0 none"}' RELEASES)
named=$(awk -v head="$head" '/^v/ && $2 == head {print $1}' RELEASES)
if [ -n "$named" ] && [ -z "$dirty" ]; then echo "$named"; exit; fi
since=$(git rev-list --count "$2..HEAD" 2>/dev/null) || since=0
echo "${1%.*}.$((${1##*.} + 1))-dev.$since.g$(git rev-parse --short=8 HEAD)$dirty"

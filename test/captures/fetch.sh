#!/bin/sh
# Fetches the captures of Debian's source packages hwloc and util-linux into .cache/debian, with apt's signature
# checks and without touching the system's package lists. Usage: test/captures/fetch.sh [SUITE]
set -eu
suite=${1:-bookworm}
cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/debian
mkdir -p "$cache/lists/partial"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# The mirror that this machine takes its packages from, as apt itself names it.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT) $(CODENAME)' |
	awk -v suite="$suite" '$2 == "Debian" && $3 == "main" && $4 == suite {print $1; exit}')
[ -n "$mirror" ] || { echo "apt has no mirror of Debian $suite: run apt-get update first, or name another suite" >&2; exit 1; }
echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$cache/sources.list"
cd "$cache"
set -- -qq -o Dir::Etc::SourceList="$cache/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$cache/lists" \
	-o APT::Sandbox::User=root
apt-get "$@" update
apt-get "$@" source --download-only hwloc util-linux
for archive in hwloc_*.orig.tar.* util-linux_*.orig.tar.*; do
	case $archive in
	*.asc) ;;
	*) tar xf "$archive" --wildcards '*/tests/hwloc/linux/*' '*/tests/ts/lscpu/*' '*/tests/expected/lscpu/*' 2>/dev/null || : ;;
	esac
done
rm -rf lists sources.list
ls -d hwloc-*/tests/hwloc/linux util-linux-*/tests/ts/lscpu

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs apt-get on another suite of the mirror that the system uses, with a private apt state. Reads the
# sources of the system to find the mirror. Does not change its sources, lists and caches.
#
# Usage: apt-private.sh STATE SUITE COMMAND [ARGUMENT...]
#   STATE    directory of the private state; created if it is missing
#   SUITE    suite to add to those of the running release; `none` adds no suite,
#            `only:SUITE` leaves out the running release
#   COMMAND  command of apt-get, or `sources` to print the sources
#
# The mirror is that of the running release. The script keeps its `Signed-By`.

set -eu

# Prints one line `uri release component entry` for each source of the system.
#
# apt parses the sources, in any of its formats.
system_targets() {
	apt-get -o APT::Get::IndexTargets::ReleaseInfo=false indextargets \
		--format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT) $(SOURCESENTRY)' |
		sed -n 's/^Packages //p' | sort -u
}

# Prints the `Signed-By` field of the source `$1`, `file:number`.
#
# The number is the line in a one-line list, or the stanza in a deb822 file.
signed_by() {
	file=${1%:*}
	case $file in
	*.sources)
		awk -v wanted="${1##*:}" '
			/^[ \t]*$/ { inside = 0; next }
			/^#/ { next }
			!inside { inside = 1; n++ }
			n != wanted { next }
			/^[ \t]/ { if (copy) print; next }
			{ copy = tolower($0) ~ /^signed-by[ \t]*:/; if (copy) print }
		' "$file"
		;;
	*)
		sed -n "${1##*:}s/.*\[[^]]*signed-by=\([^] ]*\).*/\1/p" "$file" |
			sed 's/,/ /g; s/^/Signed-By: /'
		;;
	esac
}

# Prints a deb822 stanza. Arguments: uri, suite, entry of the system that it is derived from.
stanza() {
	printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$1" "$2"
	signed_by "$3"
	echo
}

# Prints the private sources. `$1` is the suite as on the command line.
sources() {
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
	found=
	system_targets | {
		while read -r uri release component entry; do
			[ "$component" = main ] || continue
			case $release in
			"$codename" | oldstable | stable | testing | sid | unstable)
				[ "$1" = none ] || stanza "$uri" "${1#only:}" "$entry"
				found=y
				;;
			"$codename"-updates | "$codename"-security | "$codename"/updates) ;;
			oldstable-updates | stable-updates | oldstable-security | stable-security) ;;
			*) continue ;;
			esac
			case $1 in
			only:*) ;;
			*) stanza "$uri" "$release" "$entry" ;;
			esac
		done
		if [ -z "$found" ]; then
			echo "apt has no mirror of Debian $codename: see /etc/apt/sources.list" >&2
			exit 1
		fi
	}
}

[ $# -ge 3 ] || {
	echo "usage: $0 STATE SUITE COMMAND [ARGUMENT...]" >&2
	exit 2
}
state=$1 suite=$2
shift 2

if [ "$1" = sources ]; then
	sources "$suite"
	exit
fi

mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/parts"
sources "$suite" >"$state/parts/kscale.sources.new"
mv "$state/parts/kscale.sources.new" "$state/parts/kscale.sources"

# As root, apt downloads as the user `_apt`, which may lack access to the state.
[ "$(id -u)" != 0 ] || set -- -o APT::Sandbox::User=root "$@"

exec apt-get \
	-o Dir::Etc::SourceList=/dev/null \
	-o "Dir::Etc::SourceParts=$state/parts" \
	-o "Dir::State::Lists=$state/lists" \
	-o "Dir::Cache=$state/cache" \
	-o Acquire::Languages=none \
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
	"$@"

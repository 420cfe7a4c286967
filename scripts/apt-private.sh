#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs apt-get on one more suite of the system's own mirror, by an apt state of its own: the
# system's sources, lists and caches are neither read for anything but the mirror nor changed.
#
# Usage: apt-private.sh STATE SUITE COMMAND [ARGUMENT...]
#   STATE    directory that holds the private state; made when missing
#   SUITE    suite to add to those of the running release, or to `none`
#            (`only:SUITE` leaves the running release out)
#   COMMAND  of apt-get, or `sources` to print the sources alone
#
# The mirror is the one that the system gets its running release from; its `Signed-By` is kept.

set -eu

# Prints one line `uri release component entry` for every source of the system.
#
# apt itself reads them, whichever of its formats they are in.
system_targets() {
	apt-get -o APT::Get::IndexTargets::ReleaseInfo=false indextargets \
		--format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT) $(SOURCESENTRY)' |
		sed -n 's/^Packages //p' | sort -u
}

# Prints the `Signed-By` field of the source `$1`, `file:number`.
#
# The number is that of the line in a one-line list, of the stanza in a deb822 file.
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

# Prints one deb822 stanza: uri, suite, entry of the system that it is derived from.
stanza() {
	printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$1" "$2"
	signed_by "$3"
	echo
}

# Prints the private sources: `$1` names the suite as on the command line.
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
			echo "apt knows no mirror of Debian's $codename: see /etc/apt/sources.list" >&2
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

# As root, apt would download as `_apt`, who may not be able to reach the state.
[ "$(id -u)" != 0 ] || set -- -o APT::Sandbox::User=root "$@"

exec apt-get \
	-o Dir::Etc::SourceList=/dev/null \
	-o "Dir::Etc::SourceParts=$state/parts" \
	-o "Dir::State::Lists=$state/lists" \
	-o "Dir::Cache=$state/cache" \
	-o Acquire::Languages=none \
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
	"$@"

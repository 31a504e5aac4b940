set -u
tests=$(cd "$(dirname "$0")" && pwd)
logs=${ASSAY_VERIFIER_LOGS:-/logs/verifier}
work=$(pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$logs"
: >"$tmp/results"
doubt=

# place DIR TO lays a directory of the tests over one of the sandbox.
place() { mkdir -p "$2" && cp -R "$tests/$1/." "$2/"; }

# files ROOT ERE lists what a pattern of a report's files names; those that lie
# there before the command has begun are old, and go.
files() { find "$1" -type f 2>/dev/null | LC_ALL=C grep -E -x -e "$2" | LC_ALL=C sort; }
name() { if [ "$1" = "$tmp/out" ]; then :; else printf '%s' "${1#/}"; fi; }
wipe() { files "$1" "$2" | while IFS= read -r f; do rm -f "$f"; done; }

# start USER SECONDS COMMAND… as that user, with that limit if it is not 0.
start() {
	user=$1
	seconds=$2
	shift 2
	if [ "$seconds" != 0 ] && command -v timeout >/dev/null 2>&1; then set -- timeout "$seconds" "$@"; fi
	case $user in '' | *[!0-9]*) ;; *) user=$(awk -F: -v u="$user" '$3 == u { print $1; exit }' /etc/passwd) ;; esac
	if [ -z "$user" ] || [ "$user" = "$(id -un)" ]; then exec "$@"; fi
	exec su -s /bin/sh "$user" -c 'exec "$0" "$@"' -- "$@"
}

# ended NAME STATUS SECONDS: a command that its limit ended resolves nothing.
ended() {
	echo "[$1] ended with status $2"
	cat "$tmp/out"
	cat "$tmp/err"
	if [ "$3" != 0 ] && { [ "$2" = 124 ] || [ "$2" = 137 ]; }; then doubt="$1 did not end in time"; fi
}

# took NAME STATUS: what its report says becomes results, and has to agree with
# the command's status.
took() {
	bad=$(LC_ALL=C grep -c -E '^(failed|error|unknown)	' "$tmp/report")
	if [ -s "$tmp/report" ] && [ "$doubt" = "" ]; then
		if [ "$2" = 0 ] && [ "$bad" != 0 ]; then doubt="$1 ended with status 0, and $bad of its tests failed"; fi
		if [ "$2" != 0 ] && [ "$bad" = 0 ]; then doubt="$1 ended with status $2, and none of its tests failed"; fi
	fi
	LC_ALL=C awk -v name="$1" '{ t = index($0, "\t"); print substr($0, 1, t) name ":" substr($0, t + 1) }' "$tmp/report" >>"$tmp/results"
}

# check ID STATUS notes a check that is no report's: 0 is passed.
check() { if [ "$2" = 0 ]; then printf 'passed\t%s\n' "$1"; else printf 'failed\t%s\n' "$1"; fi >>"$tmp/results"; }

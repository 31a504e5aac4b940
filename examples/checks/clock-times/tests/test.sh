#!/bin/sh
# Made from checks.toml by 'assay task checks script': change that, and make this anew.
#
# For Harbor, which gives the work to this script in the agent's own container.
# assay grades by checks.toml itself, in fresh copies of the work, and never runs it.
# What is missing here: canaries (they take a second fresh copy), forbidden and
# protected paths, the comparison of the tests with what was placed.
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
place 'repo' '.' || doubt='the tests could not be placed'

# unit
wipe '/tmp/report.ndjson' '/tmp/report\.ndjson'
(
	cd "$work" && cd '.' || exit 127
	start '' 60 '/bin/sh' '-c' 'python3 assay_unittest.py --assay-report=/tmp/report.ndjson discover -s tests -t .'
) </dev/null >"$tmp/out" 2>"$tmp/err"
status=$?
ended unit $status 60
cat >"$tmp/read.py" <<'END_OF_FILE'
# Prints "STATUS<TAB>ID" for each test of a report: read.py FORMAT FILE…
import json, sys, unicodedata, xml.etree.ElementTree as tree

def line(s):
    out = []
    for c in s:
        if unicodedata.category(c) != "Cc" and c not in "\u2028\u2029":
            out.append(c)
        elif ord(c) < 0x20:
            out.append(chr(0x2400 + ord(c)))
        else:
            out.append("\u2421" if ord(c) == 0x7F else " ")
    return "".join(out)

def tell(status, name):
    sys.stdout.buffer.write((status + "\t" + line(name) + "\n").encode("utf-8", "replace"))

def pytest_id(a):
    classname, name, file = a.get("classname", ""), a.get("name", ""), a.get("file", "")
    if not classname:
        return file or name
    if file.endswith(".py"):
        module = file[:-3].replace("/", ".")
        if classname == module:
            return file + "::" + name
        if classname.startswith(module + "."):
            return file + "::" + classname[len(module) + 1:].replace(".", "::") + "::" + name
    return classname + "::" + name

def pytest(path):
    for case in tree.parse(path).getroot().iter("testcase"):
        status = "passed"
        for part in case:
            if part.tag in ("failure", "error"):
                status = "failed"
            elif part.tag == "skipped" and status == "passed":
                status = "skipped"
        tell(status, pytest_id(case.attrib))

def log(path):
    begun = {}
    for text in open(path, encoding="utf-8", errors="replace"):
        if not text.strip():
            continue
        o = json.loads(text)
        if o.get("start") is not None:
            begun[o["start"]] = begun.get(o["start"], 0) + 1
        name = o.get("end")
        if name is not None:
            begun[name] = begun.get(name, 0) - 1
        else:
            name = o.get("result")
        if name is not None:
            status = o.get("status", "unknown")
            if sys.argv[1] in ("unittest", "django") and status == "xpassed":
                status = "failed"
            tell(status, name)
    for name, n in begun.items():
        if n > 0:
            tell("failed", name)

for file in sys.argv[2:]:
    (pytest if sys.argv[1] == "pytest" else log)(file)
END_OF_FILE
root=$(cd "$work" && cd '.' && pwd)
set --
{
	files '/tmp/report.ndjson' '/tmp/report\.ndjson'
} | LC_ALL=C sort -u >"$tmp/files"
while IFS= read -r f; do set -- "$@" "$f"; done <"$tmp/files"
if [ $# = 0 ]; then : ; else
	"$(command -v python3 || echo python)" "$tmp/read.py" unittest "$@"
fi >"$tmp/report" || doubt='the report of unit cannot be read'
[ $# != 0 ] || : >"$tmp/report"
took unit $status

# same MODE ABS REL WANT GOT compares two files.
same() {
	[ -f "$5" ] || return 1
	case $1 in
	exact) cmp -s "$4" "$5" ;;
	tokens) [ "$(tr -s ' \t\n\r\f\v' '[\n*]' <"$4" | sed '/^$/d')" = "$(tr -s ' \t\n\r\f\v' '[\n*]' <"$5" | sed '/^$/d')" ] ;;
	numbers) LC_ALL=C awk -v abs="$2" -v rel="$3" '
		function size(x) { return x < 0 ? -x : x }
		function number(w) { return w ~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/ }
		FILENAME == ARGV[1] { for (i = 1; i <= NF; i++) want[++n] = $i; next }
		{ for (i = 1; i <= NF; i++) {
			m++
			if ($i == want[m]) continue
			if (m > n || !number($i) || !number(want[m])) { bad = 1; exit }
			if (size($i - want[m]) > abs + rel * size(want[m])) { bad = 1; exit }
		} }
		END { exit (bad || n != m) }' "$4" "$5" ;;
	*) trimmed "$4" >"$tmp/a"; trimmed "$5" >"$tmp/b"; cmp -s "$tmp/a" "$tmp/b" ;;
	esac
}
trimmed() { sed 's/[[:space:]]*$//' "$1" | awk '/^$/ { e = e "\n"; next } { printf "%s%s\n", e, $0; e = "" }'; }

# program
rm -rf "$tmp/case" && cp -R "$work" "$tmp/case"
printf %s '45s
' >"$tmp/in"
(
	cd "$tmp/case" && cd '.' || exit 127
	start '' 10 'python3' 'durations.py'
) <"$tmp/in" >"$tmp/out" 2>"$tmp/err"
status=$?
right=0
[ $status = '0' ] || right=1
printf %s '45' >"$tmp/want"
same text 0 0 "$tmp/want" "$tmp/out" || right=1
check 'program:one part' $right
rm -rf "$tmp/case" && cp -R "$work" "$tmp/case"
printf %s '1h30m
' >"$tmp/in"
(
	cd "$tmp/case" && cd '.' || exit 127
	start '' 10 'python3' 'durations.py'
) <"$tmp/in" >"$tmp/out" 2>"$tmp/err"
status=$?
right=0
[ $status = '0' ] || right=1
printf %s '5400' >"$tmp/want"
same text 0 0 "$tmp/want" "$tmp/out" || right=1
check 'program:several parts' $right
rm -rf "$tmp/case" && cp -R "$work" "$tmp/case"
printf %s '5x3m
' >"$tmp/in"
(
	cd "$tmp/case" && cd '.' || exit 127
	start '' 10 'python3' 'durations.py'
) <"$tmp/in" >"$tmp/out" 2>"$tmp/err"
status=$?
right=0
[ $status = '1' ] || right=1
printf %s '' >"$tmp/want"
same text 0 0 "$tmp/want" "$tmp/out" || right=1
check 'program:no duration' $right

# matched FILE RE reports whether the whole text matches.
matched() {
	if command -v perl >/dev/null 2>&1; then
		RE=$2 perl -0777 -e '$_ = <STDIN>; $_ = "" unless defined; $re = $ENV{RE}; exit !(/$re/)' <"$1"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import re, sys; sys.exit(not re.search(sys.argv[2].replace("\\z", "\\Z"), open(sys.argv[1], encoding="utf-8", errors="replace").read()))' "$1" "$2"
	else
		grep -E -q -e "$2" "$1"
	fi
}
# holds FILE TEXT reports whether the text stands in the file.
holds() { TEXT=$2 awk 'BEGIN { RS = "\001" } { if (index($0, ENVIRON["TEXT"])) f = 1 } END { exit !f }' "$1"; }
digest() { if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -c1-64; }
# alive RE reports whether a process other than this script's matches.
alive() {
	for p in /proc/[0-9]*; do
		case ${p#/proc/} in $$) continue ;; esac
		{ cat "$p/comm"; tr '\0\n' '  ' <"$p/cmdline"; echo; } 2>/dev/null
	done | sed 's/^ *//;s/ *$//;/^$/d' >"$tmp/processes"
	if command -v perl >/dev/null 2>&1; then
		RE=$1 perl -ne 'chomp; $re = $ENV{RE}; $f = 1 if /$re/; END { exit !$f }' <"$tmp/processes"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import re, sys; sys.exit(not any(re.search(sys.argv[2].replace("\\z", "\\Z"), l.rstrip("\n")) for l in open(sys.argv[1], errors="replace")))' "$tmp/processes" "$1"
	else
		grep -E -q -e "$1" "$tmp/processes"
	fi
}

# state:no-leftovers
right=0
if [ -e "$work"/'durations.py.orig' ] || [ -L "$work"/'durations.py.orig' ]; then right=1; fi
check 'state:no-leftovers' $right

cat >"$tmp/expected" <<'END_OF_FILE'
unit:tests.test_durations.Parse.test_several_parts
unit:tests.test_durations.Parse.test_no_duration
unit:tests.test_durations.Parse.test_one_part
unit:tests.test_durations.Parse.test_space_around
unit:tests.test_durations.Show.test_shortest
program:one part
program:several parts
program:no duration
state:no-leftovers
END_OF_FILE

# An expected check has passed if every result for it says so, and there is one.
if LC_ALL=C awk '
	FILENAME == ARGV[1] {
		t = index($0, "\t"); id = substr($0, t + 1); word = substr($0, 1, t - 1)
		if (word != "passed" || !(id in got)) got[id] = word
		next
	}
	{
		word = ($0 in got) ? got[$0] : "missing"
		n++
		if (word == "passed") next
		bad++
		if (bad <= 100) print word ": " $0
	}
	END { print (n - bad) " of " (n + 0) " expected checks passed"; exit !(n > 0 && bad == 0) }
' "$tmp/results" "$tmp/expected" && [ -z "$doubt" ]; then
	reward=1
else
	reward=0
fi
[ -z "$doubt" ] || echo "no result can be trusted: $doubt"
echo "reward $reward"
# What the work has left there is no reward, and no other user of its adds one.
chmod go-w "$logs" 2>/dev/null
rm -rf "$logs/reward.json" "$logs/reward.txt"
echo "$reward" >"$logs/reward.txt"

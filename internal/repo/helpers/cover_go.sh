# Runs each of Go's test functions by itself, with a coverage profile, for assay.
# Arguments: the deadline in seconds since 1970, flags of the build. Reads lines "IMPORT/PATH TEST"
# from /opt/assay-cover/tests; writes one file of records, see covergo.go.
deadline=$1; shift
. /etc/profile
w=/tmp/assay-cover; mkdir -p "$w/out"; log=/logs/verifier/assay-cover.go
go list -e -f 'P	{{.ImportPath}}	{{.Dir}}' ./... >"$log" 2>/dev/null
grep -l '"os/exec"' $(find . -name '*_test.go') /dev/null | sed 's/^/X	/' >>"$log"
cut -d' ' -f1 /opt/assay-cover/tests | sort -u | {
  n=0
  while read -r pkg; do
    n=$((n + 1)); dir=$(awk -F'	' -v p="$pkg" '$1 == "P" && $2 == p { print $3 }' "$log")
    [ "$(date +%s)" -lt "$deadline" ] && go test -vet=off "$@" -c -covermode=set -coverpkg=./... -o "$w/$n.test" "$pkg" >/dev/null 2>&1 || continue
    [ -x "$w/$n.test" ] || continue
    (cd "$dir" && "$w/$n.test" -test.coverprofile="$w/$n.whole" -test.timeout=300s >/dev/null 2>&1)
    { echo "W	$pkg"; sed 1d "$w/$n.whole"; } >"$w/out/$n.whole" 2>/dev/null
    grep "^$pkg " /opt/assay-cover/tests | while read -r p t; do echo "$n $dir $p $t"; done
  done
} >"$w/plan"
cat >"$w/one" <<'END'
[ "$(date +%s)" -lt "$0" ] || exit 0
w=/tmp/assay-cover; f=$w/out/$1.$4
cd "$2" && "$w/$1.test" -test.run="^$4\$" -test.coverprofile="$f.p" -test.timeout=60s >/dev/null 2>&1
[ -s "$f.p" ] && { echo "T	$3	$4"; sed 1d "$f.p" | grep -v ' 0$'; } >"$f"
rm -f "$f.p"
exit 0
END
xargs -P 2 -L 1 sh -c '. /tmp/assay-cover/one' "$deadline" <"$w/plan" 2>/dev/null
find "$w/out" -type f ! -name "*.p" -exec cat {} + >>"$log"

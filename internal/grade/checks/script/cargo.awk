# Prints "STATUS<TAB>ID" for each test of cargo test's text.
function add(name, word) {
	sub(/ - (should panic|compile fail|compile)$/, "", name)
	if (word == "ok") print "passed\t" target " " name
	else if (word == "FAILED") print "failed\t" target " " name
	else print "skipped\t" target " " name
}
function isWord(w) { return w == "ok" || w == "FAILED" || w == "ignored" || w ~ /^ignored, / }
{
	gsub(/\033(\[[0-9;:?]*[A-Za-z]|\([A-Z0-9])/, "")
	sub(/\r$/, "")
}
/^ +Running .* \(.*-[0-9a-f]+(\.exe)?\)$/ {
	at = $0
	sub(/^ +Running (unittests )?/, "", at)
	match(at, / \([^()]*\)$/)
	file = substr(at, RSTART + 2, RLENGTH - 3)
	at = substr(at, 1, RSTART - 1)
	sub(/^.*\//, "", file)
	sub(/-[0-9a-f]+(\.exe)?$/, "", file)
	target = at "[" file "]"
	inside = 0
	next
}
/^ +Doc-tests [^ ]+$/ { target = "doc[" $2 "]"; inside = 0; next }
/^running [0-9]+ tests?$/ && inside != 2 { inside = 1; half = ""; next }
/^error: could not compile / && !inside { split($0, part, "`"); print "error\tbuild[" part[2] "]"; next }
/^  process didn't exit successfully: `/ && inside == 1 { print "error\t" target; inside = 0; half = ""; next }
/^test result: (ok|FAILED)\. / && half == "" { inside = 0; next }
inside == 1 {
	if ($0 == "failures:" && half == "") { inside = 2; next }
	if (substr($0, 1, 5) == "test " && (at = index($0, " ... "))) {
		rest = substr($0, 6)
		at -= 5
		name = substr(rest, 1, at - 1)
		word = substr(rest, at + 5)
		last = word
		while ((i = index(last, " ... ")) > 0) last = substr(last, i + 5)
		if (!isWord(word) && isWord(last)) word = last
		if (isWord(word)) add(name, word)
		else half = name
		next
	}
	if (half != "") {
		if ($0 ~ /ok$/) { add(half, "ok"); half = "" }
		else if ($0 ~ /FAILED$/) { add(half, "FAILED"); half = "" }
	}
}
END { if (half != "") print "error\t" target " " half }

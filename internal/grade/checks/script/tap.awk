# Prints "STATUS<TAB>ID" for each test of TAP; -v source=NAME where it is a file.
function titled(t) { gsub(/ > /, " \\> ", t); return t }
# plain takes escapes away and shows control characters by their pictures.
function plain(s,    out, i, c, n) {
	out = ""
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c == "\\" && (substr(s, i + 1, 1) == "\\" || substr(s, i + 1, 1) == "#")) c = substr(s, ++i, 1)
		else if ((n = index(controls, c)) > 0) c = sprintf("%c%c%c", 226, 144, 128 + n)
		out = out c
	}
	return out
}
# brace gives a title its last brace back if no subtest in braces came.
function brace(d) {
	if (!braces[d]) return
	braces[d] = 0
	if (!count[d + 1]) name[d, count[d]] = name[d, count[d]] " {"
}
function clear(d) { while (d in count) { count[d] = 0; d++ } }
function point(d, bare,    t, word, rest, opens, n, i, key, mark) {
	word = "passed"
	if (substr(bare, 1, 4) == "not ") { word = "failed"; bare = substr(bare, 5) }
	rest = substr(bare, 3)
	if (rest != "" && rest !~ /^[ \t]/) return
	sub(/^[ \t]+/, "", rest)
	n = ""
	if (match(rest, /^[0-9]+/)) { n = substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1) }
	if (d > 0 && n == "") return
	sub(/^[ \t]*- /, "", rest)
	sub(/^[ \t]+/, "", rest)
	opens = 0
	if (rest ~ /(^| )\{$/) { opens = 1; sub(/ *\{$/, "", rest) }
	sub(/[ \t]+# time=[0-9.]+m?s$/, "", rest)
	if (match(rest, /(^|[ \t])#[ \t]*([sS][kK][iI][pP]|[tT][oO][dD][oO])/)) {
		mark = tolower(substr(rest, RSTART, RLENGTH))
		rest = substr(rest, 1, RSTART - 1)
		if (mark ~ /skip$/) word = "skipped"
		else word = (word == "passed") ? "xpassed" : "xfailed"
	}
	sub(/[ \t]+$/, "", rest)
	t = plain(rest)
	brace(d)
	count[d]++
	item[d, count[d]] = word
	name[d, count[d]] = (t == "") ? "#" count[d] : t
	below[d, count[d]] = ""
	group[d, count[d]] = (d == 0) ? heading : ""
	braces[d] = opens
	if (!opens) adopt(d)
}
# adopt takes the tests one level deeper as those of the last point.
function adopt(d,    i, all, again, t) {
	if (!((d + 1) in count) || !count[d + 1] || !count[d]) return
	all = lines(d + 1)
	below[d, count[d]] = all
	clear(d + 1)
}
# lines are the tests of a level, "STATUS<TAB>TITLES" each; names may repeat.
function lines(d,    i, j, n, part, all, t, again) {
	all = ""
	split("", again)
	for (i = 1; i <= count[d]; i++) {
		t = titled(name[d, i])
		if (group[d, i] != "") t = titled(group[d, i]) " > " t
		if (++again[t] > 1) t = t " (" again[t] ")"
		n = split(below[d, i], part, "\n")
		for (j = 1; j < n; j++) {
			split(part[j], f, "\t")
			all = all f[1] "\t" t " > " f[2] "\n"
		}
		all = all item[d, i] "\t" t "\n"
	}
	return all
}
BEGIN { controls = ""; for (i = 1; i < 32; i++) controls = controls sprintf("%c", i) }
{ sub(/[\r ]+$/, "") }
yaml { if ($0 ~ /^ *\.\.\.$/) yaml = 0; next }
/^ *$/ { next }
{
	bare = $0
	sub(/^ +/, "", bare)
	indent = length($0) - length(bare)
	d = int(indent / 4)
	was = first
	first = 0
}
bare ~ /^TAP version / { if (d == 0) first = 1; next }
bare == "---" && indent % 4 == 2 { yaml = 1; next }
bare ~ /^Bail out!/ { bail = 1; next }
bare == "}" && braces[d] { braces[d] = 0; adopt(d); next }
bare ~ /^1\.\.[0-9]+/ && indent % 4 == 0 { brace(d); next }
bare ~ /^#/ {
	if (bare ~ /^# Subtest: /) next
	if (was && d == 0) groups = 1
	if (!groups || d > 0 || bare ~ /^# (tests|pass|fail) +[0-9]+$/) next
	sub(/^# */, "", bare)
	heading = plain(bare)
	next
}
indent % 4 == 0 && bare ~ /^(not )?ok([ \t]|$)/ { point(d, bare) }
END {
	if (bail) print "error\tthe run bailed out"
	n = split(lines(0), part, "\n")
	for (i = 1; i < n; i++) {
		split(part[i], f, "\t")
		print f[1] "\t" (source == "" ? "" : source " > ") f[2]
	}
}

# Prints "STATUS<TAB>ID" for each testcase of JUnit's XML; -v format=junit,
# nextest or ctest.
function plain(s,    out, at, end, e, n) {
	out = ""
	while ((at = index(s, "&")) > 0) {
		out = out substr(s, 1, at - 1)
		s = substr(s, at + 1)
		end = index(s, ";")
		e = substr(s, 1, end - 1)
		s = substr(s, end + 1)
		if (e == "lt") out = out "<"
		else if (e == "gt") out = out ">"
		else if (e == "amp") out = out "&"
		else if (e == "quot") out = out "\""
		else if (e == "apos") out = out "'"
		else if (substr(e, 1, 1) == "#") out = out letter(number(substr(e, 2)))
	}
	return shown(out s)
}
function number(s,    i, n) {
	if (substr(s, 1, 1) != "x") return s + 0
	n = 0
	for (i = 2; i <= length(s); i++) n = n * 16 + index("0123456789abcdef", tolower(substr(s, i, 1))) - 1
	return n
}
function letter(n) {
	if (n < 32) return sprintf("%c%c%c", 226, 144, 128 + n)
	if (n < 128) return sprintf("%c", n)
	if (n < 2048) return sprintf("%c%c", 192 + int(n / 64), 128 + n % 64)
	if (n < 65536) return sprintf("%c%c%c", 224 + int(n / 4096), 128 + int(n / 64) % 64, 128 + n % 64)
	return sprintf("%c%c%c%c", 240 + int(n / 262144), 128 + int(n / 4096) % 64, 128 + int(n / 64) % 64, 128 + n % 64)
}
function shown(s) {
	gsub(/\t/, letter(9), s)
	gsub(/\n/, letter(10), s)
	gsub(/\r/, letter(13), s)
	return s
}
# attribute finds NAME="VALUE" in a tag.
function attribute(tag, name,    at, q, rest) {
	rest = tag
	while (match(rest, /[ \t\r\n][A-Za-z_:.-]+[ \t\r\n]*=[ \t\r\n]*["']/)) {
		at = substr(rest, RSTART + 1, RLENGTH - 2)
		q = substr(rest, RSTART + RLENGTH - 1, 1)
		gsub(/[ \t\r\n=]/, "", at)
		rest = substr(rest, RSTART + RLENGTH)
		if (at == name) return plain(substr(rest, 1, index(rest, q) - 1))
		rest = substr(rest, index(rest, q) + 1)
	}
	return ""
}
# tagEnd is where a tag's > stands: not within a value.
function tagEnd(s,    i, c, q) {
	q = ""
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (q != "") { if (c == q) q = "" }
		else if (c == "\"" || c == "'") q = c
		else if (c == ">") return i
	}
	return 0
}
function identity(    cls) {
	if (format == "ctest") return name
	if (format == "nextest") return class " " name
	cls = (class == "") ? suite[depth] : class
	if (name == "" || name == cls) return cls
	if (cls == "") return name
	return cls "::" name
}
function result() {
	if (format == "ctest") {
		if (state == "run" && !failures && !errors && !skipped) return "passed"
		if (state == "disabled") return "skipped"
		if (state == "notrun" && (why ~ /^SKIP_RETURN_CODE=/ || why == "SKIP_REGULAR_EXPRESSION_MATCHED" || why == "Disabled")) return "skipped"
		return "failed"
	}
	if (errors) return "error"
	if (failures) return "failed"
	if (flaky) return "xfailed"
	if (skipped || state == "notrun" || state == "disabled" || state == "skipped") return "skipped"
	return "passed"
}
function begin(tag) {
	class = attribute(tag, "classname"); name = attribute(tag, "name"); state = attribute(tag, "status")
	failures = errors = skipped = flaky = 0; why = ""; open = 1
}
BEGIN { RS = "<"; depth = 0 }
skip != "" { if (index($0, skip)) skip = ""; next }
/^!\[CDATA\[/ { if (!index($0, "]]>")) skip = "]]>"; next }
/^!--/ { if (!index($0, "-->")) skip = "-->"; next }
/^[?!]/ { next }
{
	end = tagEnd($0)
	if (!end) next
	tag = substr($0, 1, end)
	closing = substr(tag, 1, 1) == "/"
	alone = substr(tag, end - 1, 1) == "/"
	if (!match(tag, /[A-Za-z_:.-]+/)) next
	el = substr(tag, RSTART, RLENGTH)
	if (el == "testsuite" || el == "testsuites") {
		if (closing) depth--
		else if (!alone) suite[++depth] = attribute(tag, "name")
	} else if (el == "testcase") {
		if (!closing) begin(tag)
		if (closing || alone) { if (open) print result() "\t" identity(); open = 0 }
	} else if (open && !closing) {
		if (el == "failure") failures++
		else if (el == "error") errors++
		else if (el == "skipped" || el == "ignored") skipped++
		else if (el == "flakyFailure" || el == "flakyError") flaky++
		else next
		if (why == "") why = attribute(tag, "message")
	}
}

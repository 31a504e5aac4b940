# Prints "STATUS<TAB>ID" for each test of a stream of go test -json.
function text(key,    at, rest, i, c, out, hex, n) {
	at = index($0, "\"" key "\":\"")
	if (!at) return ""
	rest = substr($0, at + length(key) + 4)
	out = ""
	for (i = 1; i <= length(rest); i++) {
		c = substr(rest, i, 1)
		if (c == "\"") break
		if (c != "\\") { out = out c; continue }
		c = substr(rest, ++i, 1)
		if (c == "u") {
			n = 0
			for (hex = 1; hex <= 4; hex++) n = n * 16 + index("0123456789abcdef", tolower(substr(rest, i + hex, 1))) - 1
			i += 4
			if (n < 32) out = out picture(n)
			else if (n < 128) out = out sprintf("%c", n)
			else if (n < 2048) out = out sprintf("%c%c", 192 + int(n / 64), 128 + n % 64)
			else out = out sprintf("%c%c%c", 224 + int(n / 4096), 128 + int(n / 64) % 64, 128 + n % 64)
		} else if (c == "n") out = out picture(10)
		else if (c == "t") out = out picture(9)
		else if (c == "r") out = out picture(13)
		else if (c == "b") out = out picture(8)
		else if (c == "f") out = out picture(12)
		else out = out c
	}
	return out
}
function picture(n) { return sprintf("%c%c%c", 226, 144, 128 + n) }
/^FAIL\t/ { split($0, f, /[\t ]/); print "error\t" f[2]; next }
/^\{/ {
	action = text("Action"); pkg = text("Package"); test = text("Test")
	if (pkg == "") next
	if (test == "") {
		if (action == "start") marked[pkg] = 1
		if (action != "pass" && action != "fail" && action != "skip") next
		for (id in open) if (of[id] == pkg && id !~ /::Benchmark/) { print "error\t" id; failed[pkg]++; delete open[id] }
		if (action == "fail" && !failed[pkg]) print "error\t" pkg
		next
	}
	id = pkg "::" test
	# Before Go 1.20 a print without a line end hides the result behind it.
	if (action == "output" && !marked[pkg]) {
		said = text("Output")
		if (said !~ /^ *--- FAIL: / && index(said, "--- FAIL: " test " (")) { print "failed\t" id; failed[pkg]++; delete open[id] }
	}
	if (action == "run") { open[id] = 1; of[id] = pkg }
	if (action == "pass") word = "passed"
	else if (action == "fail") { word = "failed"; failed[pkg]++ }
	else if (action == "skip") word = "skipped"
	else next
	delete open[id]
	print word "\t" id
}
END { for (id in open) if (id !~ /::Benchmark/) print "error\t" id }

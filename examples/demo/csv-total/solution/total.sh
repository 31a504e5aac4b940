#!/bin/sh
# usage: total.sh FILE
# Prints the sum of the column "amount" of a CSV file, exact to the cent.
if [ $# -ne 1 ] || [ ! -f "$1" ] || [ ! -r "$1" ]; then
	echo "total.sh: cannot read ${1:-a file: none was named}" >&2
	exit 2
fi
exec awk '
# split_csv fills field[1..n] from one line and returns n.
function split_csv(line,    n, i, c, quoted, text) {
	n = 0; quoted = 0; text = ""
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (quoted) {
			if (c != "\"") text = text c
			else if (substr(line, i + 1, 1) == "\"") { text = text c; i++ }
			else quoted = 0
		} else if (c == "\"") quoted = 1
		else if (c == ",") { field[++n] = text; text = "" }
		else text = text c
	}
	field[++n] = text
	return n
}
function cents(amount,    sign, dot, whole, part) {
	sign = 1
	if (substr(amount, 1, 1) == "-") { sign = -1; amount = substr(amount, 2) }
	dot = index(amount, ".")
	whole = dot ? substr(amount, 1, dot - 1) : amount
	part = dot ? substr(substr(amount, dot + 1) "00", 1, 2) : 0
	return sign * (whole * 100 + part)
}
{ sub(/\r$/, "") }
$0 == "" { next }
!column {
	n = split_csv($0)
	for (i = 1; i <= n; i++) if (field[i] == "amount") column = i
	if (!column) exit
	next
}
{
	n = split_csv($0)
	if (column <= n) total += cents(field[column])
}
END {
	if (!column) {
		print "total.sh: no column amount" > "/dev/stderr"
		exit 2
	}
	sign = total < 0 ? "-" : ""
	if (total < 0) total = -total
	printf "%s%.0f.%02d\n", sign, (total - total % 100) / 100, total % 100
}' <"$1"

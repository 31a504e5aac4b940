#!/bin/sh
# usage: stock.sh FILE
LC_ALL=C
export LC_ALL
report=$(awk -v file="$1" '
	/^#/ || NF == 0 { next }
	NF != 4 { wrong("not DATE ITEM IN|OUT QUANTITY"); exit }
	$3 != "IN" && $3 != "OUT" { wrong($3 " is neither IN nor OUT"); exit }
	$4 !~ /^[0-9]+$/ || $4 + 0 < 1 { wrong($4 " is not a quantity"); exit }
	{ stock[$2] += $3 == "IN" ? $4 : -$4 }
	function wrong(what) {
		print file ":" NR ": " what > "/dev/stderr"
		failed = 1
	}
	END {
		if (failed) exit 1
		for (item in stock) if (stock[item] != 0) print item, stock[item]
	}' <"$1") || exit 1
[ -z "$report" ] || printf '%s\n' "$report" | sort

#!/bin/sh
# usage: stock.sh [-w] FILE
LC_ALL=C
export LC_ALL
by=item
if [ "$1" = -w ]; then
	by=warehouse
	shift
fi
report=$(awk -v file="$1" -v by="$by" '
	/^#/ || NF == 0 { next }
	NF != 4 && NF != 5 { wrong(1, "not DATE ITEM IN|OUT QUANTITY [@WAREHOUSE]"); exit }
	$3 != "IN" && $3 != "OUT" { wrong(1, $3 " is neither IN nor OUT"); exit }
	$4 !~ /^[0-9]+$/ || $4 + 0 < 1 { wrong(1, $4 " is not a quantity"); exit }
	NF == 5 && $5 !~ /^@[a-z0-9-]+$/ { wrong(1, $5 " is not a warehouse"); exit }
	{
		at = NF == 5 ? substr($5, 2) : "main"
		there[at " " $2] += $3 == "IN" ? $4 : -$4
		if (there[at " " $2] < 0) { wrong(3, "more " $2 " than there is in " at); exit }
		stock[by == "item" ? $2 : at " " $2] += $3 == "IN" ? $4 : -$4
	}
	function wrong(status, what) {
		print file ":" NR ": " what > "/dev/stderr"
		failed = status
	}
	END {
		if (failed) exit failed
		for (item in stock) if (stock[item] != 0) print item, stock[item]
	}' <"$1") || exit
[ -z "$report" ] || printf '%s\n' "$report" | sort

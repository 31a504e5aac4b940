#!/bin/sh
# A solver for the demo tasks that is right about half of the time, honestly: it
# solves some, falls into the traps of others, and does one of two steps.

# step: look around
ls -la

# step: read the script and the export
# task: csv-total
cat total.sh sample.csv

# step: rewrite the script around a small CSV reader
# task: csv-total
cat >total.sh <<'END'
#!/bin/sh
[ -r "$1" ] && [ -f "$1" ] || { echo "total.sh: cannot read $1" >&2; exit 2; }
tr -d '\r' <"$1" | awk '
	function fields(s,   i, c, q, t, n) {
		n = 1; q = 0; t = ""
		for (i = 1; i <= length(s); i++) {
			c = substr(s, i, 1)
			if (c == "\"" && q && substr(s, i + 1, 1) == "\"") { t = t c; i++ }
			else if (c == "\"") q = !q
			else if (c == "," && !q) { f[n++] = t; t = "" }
			else t = t c
		}
		f[n] = t
		return n
	}
	$0 == "" { next }
	{ n = fields($0) }
	!col { for (i = 1; i <= n; i++) if (f[i] == "amount") col = i; if (!col) exit; next }
	col <= n { sum += sprintf("%.0f", f[col] * 100) }
	END {
		if (!col) { print "total.sh: no amount" > "/dev/stderr"; exit 2 }
		printf "%.2f\n", sum / 100
	}'
END

# step: try it on the sample
# task: csv-total
sh total.sh sample.csv

# step: ask the checker
# task: relay-config
sh relay-check || tail -n +1 /etc/relay/relay.conf /etc/relay/conf.d/*

# step: repair what it says, and what it cannot see
# task: relay-config
sed 's/upstrem/upstream/' /etc/relay/relay.conf >/tmp/relay.conf
cat /tmp/relay.conf >/etc/relay/relay.conf
rm /etc/relay/conf.d/90-incident.conf
sed 's|/private/|/|' /etc/relay/conf.d/50-tls.cnf >/etc/relay/conf.d/50-tls.conf
chmod 600 /etc/relay/relay.key

# step: ask the checker again
# task: relay-config
sh relay-check

# step: write the obvious rotation, which misses blanks, gaps, links and open files
# task: log-rotate
cat >rotate.sh <<'END'
#!/bin/sh
cd "$1" || exit 2
for log in $(ls *.log); do
	n=$2
	while [ "$n" -gt 1 ]; do
		[ -f "$log.$((n - 1))" ] && mv "$log.$((n - 1))" "$log.$n"
		n=$((n - 1))
	done
	mv "$log" "$log.1"
	touch "$log"
	echo "rotated $log"
done
END

# step: try it on the example
# task: log-rotate
sh rotate.sh example 3

# step: write the report, or take the new field off before it
# task: stock-report
if [ ! -f stock.sh ]; then
	cat >stock.sh <<'END'
#!/bin/sh
file=$1
out=$(awk -v name="$file" '
	/^#/ || NF == 0 { next }
	NF != 4 || ($3 != "IN" && $3 != "OUT") || $4 !~ /^[1-9][0-9]*$/ {
		print name ":" NR ": malformed line" > "/dev/stderr"
		bad = 1
		exit
	}
	$3 == "IN" { n[$2] += $4 }
	$3 == "OUT" { n[$2] -= $4 }
	END {
		if (bad) exit 1
		for (i in n) if (n[i]) print i, n[i]
	}' <"$file") || exit 1
[ -z "$out" ] || echo "$out" | LC_ALL=C sort
END
else
	sed 's|^file=.*|[ "$1" = -w ] \&\& shift; file=$1|' stock.sh >stock.new
	mv stock.new stock.sh
fi

# step: try it on the example
# task: stock-report
sh stock.sh movements.txt

# step: take the first unhealthy layer for the culprit
# task: config-regression
n=1
while sh health.sh "$n"; do
	n=$((n + 1))
done
layer=$(ls layers | sed -n "${n}p")
cat "layers/$layer"
echo "$layer client.backoff" >answer.txt
echo "client.backoff = 0" >layers/99-fix.conf
sh health.sh || echo "still unhealthy"

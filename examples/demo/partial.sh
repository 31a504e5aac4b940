#!/bin/sh
# A solver for the demo tasks that is right about half of the time, honestly: it
# solves some, falls into the traps of others, and does one of two steps. It
# knows a task by what lies in the directory that it starts in.

ls -la

if [ -f total.sh ]; then
	# Solves csv-total: quotes, line ends and cents are handled.
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
	sh total.sh sample.csv
fi

if [ -f relay-check ]; then
	# Solves relay-config: every complaint of the checker, one after the other.
	sed 's/upstrem/upstream/' /etc/relay/relay.conf >/tmp/relay.conf
	cat /tmp/relay.conf >/etc/relay/relay.conf
	rm -f /etc/relay/conf.d/90-incident.conf
	sed 's|/private/|/|' /etc/relay/conf.d/50-tls.cnf >/etc/relay/conf.d/50-tls.conf
	chmod 600 /etc/relay/relay.key
	sh relay-check
fi

if [ -f example/web.log ]; then
	# Tries log-rotate and misses its edges: names with blanks, gaps, links.
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
	sh rotate.sh example 3
fi

if [ -f movements.txt ] && [ ! -f stock.sh ]; then
	# Solves the first step of stock-report.
	cat >stock.sh <<'END'
#!/bin/sh
out=$(awk -v name="$1" '
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
	}' <"$1") || exit 1
[ -z "$out" ] || echo "$out" | LC_ALL=C sort
END
	sh stock.sh movements.txt
elif [ -f movements.txt ]; then
	# Of the second step it only takes the new field off.
	sed 's/<"$1"/<"$file"/; 2i file=$1; [ "$1" = -w ] \&\& file=$2' stock.sh >stock.new
	mv stock.new stock.sh
	sh stock.sh movements.txt
fi

if [ -f health.sh ]; then
	# Takes the first unhealthy layer of config-regression for the culprit.
	n=1
	while sh health.sh "$n" >/dev/null; do
		n=$((n + 1))
	done
	ls layers | sed -n "${n}p"
	echo "$(ls layers | sed -n "${n}p") client.backoff" >answer.txt
	echo "client.backoff = 0" >layers/99-fix.conf
	sh health.sh || echo "still unhealthy"
fi

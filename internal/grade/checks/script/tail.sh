
# An expected check has passed if every result for it says so, and there is one.
if LC_ALL=C awk '
	FILENAME == ARGV[1] {
		t = index($0, "\t"); id = substr($0, t + 1); word = substr($0, 1, t - 1)
		if (word != "passed" || !(id in got)) got[id] = word
		next
	}
	{
		word = ($0 in got) ? got[$0] : "missing"
		n++
		if (word == "passed") next
		bad++
		if (bad <= 100) print word ": " $0
	}
	END { print (n - bad) " of " (n + 0) " expected checks passed"; exit !(n > 0 && bad == 0) }
' "$tmp/results" "$tmp/expected" && [ -z "$doubt" ]; then
	reward=1
else
	reward=0
fi
[ -z "$doubt" ] || echo "no result can be trusted: $doubt"
echo "reward $reward"
# What the work has left there is no reward, and no other user of its adds one.
chmod go-w "$logs" 2>/dev/null
rm -rf "$logs/reward.json" "$logs/reward.txt"
echo "$reward" >"$logs/reward.txt"

#!/bin/sh
# Reads the answer and renders the layers with a copy of its own.
here=$(dirname "$0")
failed=0
verdict() { # NAME CONDITION-STATUS WHAT
	if [ "$2" -eq 0 ]; then
		echo "ok   $1"
	else
		echo "FAIL $1: $3"
		failed=1
	fi
}

[ -f /app/answer.txt ] && [ "$(head -c 200 /app/answer.txt)" = "17-pool-tuning.conf pool.wait" ]
verdict answer $? "$(head -c 200 /app/answer.txt 2>&1)"

before=$(sh "$here/render.sh" 24 /app/layers)
[ "$before" = "$(cat "$here/before.txt")" ]
verdict "the 24 layers" $? "they make another configuration than before"

after=$(sh "$here/render.sh" 999 /app/layers)
[ "$after" = "$(sed 's/^client.timeout = .*/client.timeout = 200/' "$here/before.txt")" ]
verdict "with the fix" $? "$after"

[ -f /app/layers/99-fix.conf ] && [ "$(ls -A /app/layers | wc -l)" -eq 25 ]
verdict "one layer more" $? "$(ls -A /app/layers)"

mkdir -p /logs/verifier
if [ "$failed" -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
exit "$failed"

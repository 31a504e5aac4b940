#!/bin/sh
set -eu
cd /app
count=24
while ! sh health.sh "$count" >/dev/null; do
	count=$((count - 1))
done
set -- layers/*
shift "$count"
echo "${1##*/} pool.wait" >answer.txt
echo "client.timeout = $(sh render.sh "$count" | sed -n 's/^client.timeout = //p')" >layers/99-fix.conf

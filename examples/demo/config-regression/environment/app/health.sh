#!/bin/sh
# usage: health.sh [COUNT] [DIR]
# Says whether the service is healthy with the first COUNT layers.
config=$(sh "$(dirname "$0")/render.sh" "$@") || exit 2
get() { printf '%s\n' "$config" | sed -n "s/^$1 = //p"; }

worst=$((($(get client.retries) + 1) * $(get client.timeout) + $(get client.retries) * $(get client.backoff)))
if [ "$worst" -gt "$(get gateway.deadline)" ]; then
	echo "unhealthy: a request may take $worst ms, the gateway gives up after $(get gateway.deadline) ms"
	exit 1
fi
echo "healthy: a request takes $worst ms at worst"

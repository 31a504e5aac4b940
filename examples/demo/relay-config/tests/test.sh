#!/bin/sh
# Reads the repaired configuration with a checker of its own.
want='listen = 0.0.0.0:8443
log_dir = /var/log/relay
max_conn = 512
rate_limit = 100
tls = on
tls_cert = /etc/relay/relay.crt
tls_key = /etc/relay/relay.key
upstream = http://10.0.0.5:9000'
failed=0

got=$(timeout 10 sh "$(dirname "$0")/relay-check" /etc/relay 2>&1 </dev/null)
status=$?
if [ "$status" -eq 0 ] && [ "$got" = "$want" ]; then
	echo "ok   settings"
else
	echo "FAIL settings: status $status"
	printf '%s\n' "$got"
	failed=1
fi

if grep -q 'key of relay.example' /etc/relay/relay.key && grep -q 'certificate of relay.example' /etc/relay/relay.crt; then
	echo "ok   key and certificate"
else
	echo "FAIL key and certificate: not the ones that were there"
	failed=1
fi

if [ -f /etc/relay/conf.d/20-limits.conf ]; then
	echo "ok   platform drop-in"
else
	echo "FAIL platform drop-in: removed"
	failed=1
fi

mkdir -p /logs/verifier
if [ "$failed" -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
exit "$failed"

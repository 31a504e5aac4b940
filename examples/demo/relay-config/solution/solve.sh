#!/bin/sh
set -eu
cd /etc/relay
sed 's/^upstrem /upstream /' relay.conf >relay.conf.new
cat relay.conf.new >relay.conf
rm relay.conf.new conf.d/90-incident.conf
mv conf.d/50-tls.cnf conf.d/50-tls.conf
sed 's|/etc/relay/private/relay.key|/etc/relay/relay.key|' conf.d/50-tls.conf >50.new
cat 50.new >conf.d/50-tls.conf
rm 50.new
chmod 600 relay.key

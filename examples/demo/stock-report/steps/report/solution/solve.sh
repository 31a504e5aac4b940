#!/bin/sh
set -eu
cp "${0%/*}/stock.sh" /app/stock.sh

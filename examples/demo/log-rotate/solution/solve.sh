#!/bin/sh
set -eu
cp "${0%/*}/rotate.sh" /app/rotate.sh

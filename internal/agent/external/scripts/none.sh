#!/bin/sh
# Makes the place for files of the user's own.
set -eu
mkdir -p "$PLACE/bin" "$PLACE/.assay"

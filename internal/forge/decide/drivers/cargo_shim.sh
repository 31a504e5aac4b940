#!/bin/sh
# Stands before the real cargo in PATH while the suite's own command runs once: notes how it calls "cargo test", and where.
here=/.assay-decide
PATH=$(printf %s "$PATH" | sed "s#$here/bin:##g"); export PATH
case " $* " in *" test "*) ;; *) exec cargo "$@" ;; esac
n=$(ls "$here/said" 2>/dev/null | wc -l)
mkdir -p "$here/said/$n"
export -p >"$here/said/$n/env"
pwd >"$here/said/$n/dir"
for a in "$@"; do printf '%s\n' "$a"; done >"$here/said/$n/args"
exit 0

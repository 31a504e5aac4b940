#!/bin/sh
. /tests/lib/check.sh
if [ ! -e /tests/notes.txt ] && [ -e /tests/lib/keep.txt ] && check; then echo 1; else echo 0; fi >/logs/verifier/reward.txt

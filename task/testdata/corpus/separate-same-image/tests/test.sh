#!/bin/sh
if [ "$(cat /app/answer.txt)" = 42 ] && [ ! -e /app/other ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt

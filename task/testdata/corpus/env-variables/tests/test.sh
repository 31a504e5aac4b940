#!/bin/sh
if [ "$(cat answer.txt)" = "$WANT!" ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt

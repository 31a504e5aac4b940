#!/bin/sh
if [ "$(cat /etc/greeting 2>/dev/null)" = hello ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt

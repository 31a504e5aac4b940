#!/bin/sh
if [ -e /tests/mark ] && [ -s log.txt ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt

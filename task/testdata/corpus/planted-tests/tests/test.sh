#!/bin/sh
if [ -e /tests/planted ]; then echo 0; else echo 1; fi >/logs/verifier/reward.txt

#!/bin/sh
if [ -e saw-tests ]; then echo 0; else echo 1; fi >/logs/verifier/reward.txt

#!/bin/sh
if grep -qx one log.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt

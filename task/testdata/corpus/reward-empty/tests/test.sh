#!/bin/sh
: >/logs/verifier/reward.txt

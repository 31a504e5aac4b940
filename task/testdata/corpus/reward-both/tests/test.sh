#!/bin/sh
echo 1 >/logs/verifier/reward.txt
echo '{"reward": 0}' >/logs/verifier/reward.json

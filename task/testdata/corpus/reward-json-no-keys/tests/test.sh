#!/bin/sh
cat >/logs/verifier/reward.json <<'END'
{}
END

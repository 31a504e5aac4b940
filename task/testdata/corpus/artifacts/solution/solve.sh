#!/bin/sh
set -e
echo 42 >answer.txt
mkdir -p out
echo a >out/a
echo b >out/b.tmp
mkdir -p /logs/artifacts
echo c >/logs/artifacts/c

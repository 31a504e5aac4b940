#!/bin/sh
cp seed.txt seeded.txt

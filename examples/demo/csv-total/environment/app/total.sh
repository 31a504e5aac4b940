#!/bin/sh
# usage: total.sh FILE
# Prints the sum of the amounts in FILE.
total=0
while IFS=, read -r date customer amount note; do
	total=$((total + ${amount%.*}))
done <"$1"
echo "$total.00"

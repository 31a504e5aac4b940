#!/bin/sh
# usage: render.sh [COUNT] [DIR]
# Prints the configuration that the first COUNT layers of DIR make (default: all
# of ./layers), sorted. Layers are files NN-name.conf with lines KEY = VALUE; a
# later layer wins. ${KEY} in a value is the final value of that key.
LC_ALL=C
export LC_ALL
count=${1:-999}
dir=${2:-layers}
set --
for file in "$dir"/[0-9][0-9]-*.conf; do
	[ -f "$file" ] && [ "$#" -lt "$count" ] && set -- "$@" "$file"
done
[ "$#" -gt 0 ] || {
	echo "render.sh: no layers in $dir" >&2
	exit 1
}
awk '
	/^[ \t]*#/ || /^[ \t]*$/ { next }
	{
		at = index($0, "=")
		key = substr($0, 1, at - 1); value = substr($0, at + 1)
		gsub(/[ \t]/, "", key); sub(/^[ \t]+/, "", value); sub(/[ \t]+$/, "", value)
		set[key] = value
	}
	END {
		for (key in set) {
			value = set[key]
			for (depth = 0; match(value, /\$\{[a-z_.]+\}/) && depth < 20; depth++)
				value = substr(value, 1, RSTART - 1) set[substr(value, RSTART + 2, RLENGTH - 3)] substr(value, RSTART + RLENGTH)
			print key " = " value
		}
	}' "$@" | sort

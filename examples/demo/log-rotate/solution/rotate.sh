#!/bin/sh
# usage: rotate.sh DIR KEEP
usage() {
	echo "rotate.sh: $1" >&2
	exit 2
}
[ $# -eq 2 ] || usage "usage: rotate.sh DIR KEEP"
dir=$1 keep=$2
case $keep in
'' | *[!0-9]* | 0?*) usage "KEEP is not a whole number: $keep" ;;
esac
# A leading dash would be an option to every tool below.
case $dir in /*) ;; *) dir=./$dir ;; esac
[ -d "$dir" ] || usage "not a directory: $dir"
LC_ALL=C
export LC_ALL

# numbers LOG: the numbers of its copies, the highest first.
numbers() {
	for copy in "$1".[0-9]*; do
		n=${copy##*.}
		case $n in *[!0-9]* | 0*) continue ;; esac
		[ -f "$copy" ] && [ ! -L "$copy" ] && echo "$n"
	done | sort -rn
}

ls -A "$dir" | sort | while IFS= read -r name; do
	log=$dir/$name
	case $name in *.log) ;; *) continue ;; esac
	[ -f "$log" ] && [ ! -L "$log" ] && [ -s "$log" ] || continue
	for n in $(numbers "$log"); do
		if [ "$n" -ge "$keep" ]; then
			rm -f "$log.$n"
		else
			mv -f "$log.$n" "$log.$((n + 1))"
		fi
	done
	[ "$keep" -eq 0 ] || cp -p "$log" "$log.1"
	: >"$log"
	printf 'rotated %s\n' "$name"
done

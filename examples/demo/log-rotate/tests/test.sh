#!/bin/sh
# Runs the script in directories that it has not seen.
work=$(mktemp -d) || exit 2
failed=0
cd "$work" || exit 2
LC_ALL=C
export LC_ALL

verdict() { # NAME CONDITION-STATUS WHAT
	if [ "$2" -eq 0 ]; then
		echo "ok   $1"
	else
		echo "FAIL $1: $3"
		failed=1
	fi
}
rotate() { timeout 10 sh /app/rotate.sh "$@" >"$work/out" 2>"$work/err" </dev/null; }
# state DIR: names and contents, one a line.
state() {
	ls -A "$1" | sort | while IFS= read -r f; do
		if [ -L "$1/$f" ]; then
			echo "$f -> link"
		elif [ -d "$1/$f" ]; then
			echo "$f/"
		else
			echo "$f: $(cat "$1/$f")"
		fi
	done
}
same() { # NAME DIR WANT
	got=$(state "$2")
	[ "$got" = "$3" ]
	verdict "$1" $? "the directory holds
$got"
}

mkdir plain && echo new >plain/a.log && echo one >plain/a.log.1 && echo two >plain/a.log.2 && echo x >plain/b.log
rotate plain 3
verdict "plain: status" $? "not 0"
same plain plain "a.log: 
a.log.1: new
a.log.2: one
a.log.3: two
b.log: 
b.log.1: x"
[ "$(cat out)" = "rotated a.log
rotated b.log" ]
verdict "plain: output" $? "$(cat out)"

mkdir limit && echo new >limit/a.log && echo one >limit/a.log.1 && echo two >limit/a.log.2 && echo nine >limit/a.log.9 && echo twelve >limit/a.log.12
rotate limit 2
same limit limit "a.log: 
a.log.1: new
a.log.2: one"

mkdir gaps && echo new >gaps/a.log && echo three >gaps/a.log.3 && echo ten >gaps/a.log.10 && echo nine >gaps/a.log.9
rotate gaps 20
same "gaps and two digits" gaps "a.log: 
a.log.1: new
a.log.10: nine
a.log.11: ten
a.log.4: three"

mkdir none && echo new >none/a.log && echo one >none/a.log.1
rotate none 0
same "keep 0" none "a.log: "

mkdir alone && : >alone/empty.log && echo old >alone/empty.log.1 && echo z >alone/x.log.gz && echo o >alone/x.log.old &&
	echo t >alone/notes.txt && mkdir alone/dir.log && echo in >alone/dir.log/in.log && echo target >outside && ln -s ../outside alone/link.log
before=$(state alone)
rotate alone 2
same "left alone" alone "$before"
[ "$(cat outside)" = target ] && [ "$(cat alone/dir.log/in.log)" = in ]
verdict "links and subdirectories" $? "something behind them was changed"
[ ! -s out ]
verdict "left alone: output" $? "$(cat out)"

mkdir odd && echo 1 >"odd/two words.log" && echo 2 >odd/-n.log && echo 3 >"odd/it's.log" && echo 4 >odd/.hidden.log && echo 5 >'odd/*.log' && echo 6 >'odd/*.log.1'
rotate odd 2
same "odd names" odd "*.log: 
*.log.1: 5
*.log.2: 6
-n.log: 
-n.log.1: 2
.hidden.log: 
.hidden.log.1: 4
it's.log: 
it's.log.1: 3
two words.log: 
two words.log.1: 1"

mkdir open && echo first >open/a.log && chmod 640 open/a.log
exec 7>>open/a.log
rotate open 1
echo second >&7
exec 7>&-
same "open file" open "a.log: second
a.log.1: first"
case $(ls -ld open/a.log.1) in -rw-r-----*) true ;; *) false ;; esac
verdict "permissions" $? "$(ls -ld open/a.log.1 2>&1)"

mkdir ./-dash && echo new >./-dash/a.log
rotate -dash 1
same "directory with a dash" ./-dash "a.log: 
a.log.1: new"

mkdir bad && echo new >bad/a.log
for args in "bad -1" "bad x" "bad 1x" "bad" "bad 1 2" "nowhere 1" "plain/a.log 1"; do
	# shellcheck disable=SC2086
	rotate $args
	[ $? -eq 2 ] && [ -s err ]
	verdict "refused: $args" $? "not refused with status 2 and a message"
done
rotate bad ""
[ $? -eq 2 ]
verdict "refused: empty KEEP" $? "not refused with status 2"
same "nothing changed" bad "a.log: new"

cd / && rm -rf "$work"
mkdir -p /logs/verifier
if [ "$failed" -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
exit "$failed"

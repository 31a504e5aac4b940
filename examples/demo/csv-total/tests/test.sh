#!/bin/sh
# Runs the repaired script on files that it has not seen.
work=$(mktemp -d) || exit 2
failed=0

# expect NAME STATUS OUTPUT: runs total.sh on $work/NAME.
expect() {
	got=$(timeout 10 sh /app/total.sh "$work/$1" 2>"$work/stderr" </dev/null)
	status=$?
	if [ "$status" -eq "$2" ] && [ "$got" = "$3" ] && { [ "$2" -eq 0 ] || [ -s "$work/stderr" ]; }; then
		echo "ok   $1"
	else
		echo "FAIL $1: status $status, printed '$got', want status $2 and '$3'"
		failed=1
	fi
}

printf 'date,customer,amount,note\n2026-03-02,"Lindqvist, Sons & Co",1200.50,first order\n2026-03-02,Okafor,19.99,\n2026-03-03,"The ""Blue"" Door",-43.31,"returned, damaged"\n\n2026-03-04,Marin,100,\n2026-03-05,Marin,,pending\n' >"$work/sample"
expect sample 0 1277.18

printf 'amount,who\n1,a\n2.5,b\n3.05,c\n' >"$work/first-column"
expect first-column 0 6.55

printf 'who,amount\r\na,10.10\r\nb,20.20\r\n' >"$work/crlf"
expect crlf 0 30.30

printf 'who,amount\na,7\nb,8' >"$work/no-last-newline"
expect no-last-newline 0 15.00

printf '"who","amount"\n"a, ""b"", c","12.34"\n"x","-0.34"\n' >"$work/all-quoted"
expect all-quoted 0 12.00

printf 'who,amount\na,-0.05\n' >"$work/small-negative"
expect small-negative 0 -0.05

printf 'who,amount\n' >"$work/no-lines"
expect no-lines 0 0.00

printf 'amount before tax,amount\n100,119\n200,238\n' >"$work/similar-name"
expect similar-name 0 357.00

i=0
{
	echo who,amount
	while [ "$i" -lt 1000 ]; do
		echo "w$i,0.1"
		echo "w$i,0.07"
		i=$((i + 1))
	done
} >"$work/many-cents"
expect many-cents 0 170.00

printf 'who,amount\na,8000000.01\nb,9000000.02\nc,7000000.09\n' >"$work/large"
expect large 0 24000000.12

printf 'who,sum\na,1\n' >"$work/no-column"
expect no-column 2 ''

expect missing-file 2 ''

rm -rf "$work"
mkdir -p /logs/verifier
if [ "$failed" -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
exit "$failed"

# What both steps' tests share; it is sourced. The caller ends with finish,
# which writes the reward.
work=$(mktemp -d) || exit 2
failed=0

# expect NAME STATUS OUTPUT ARG…: runs stock.sh in the directory of the files.
expect() {
	name=$1 want_status=$2 want=$3
	shift 3
	got=$(cd "$work" && timeout 10 sh /app/stock.sh "$@" 2>stderr </dev/null)
	status=$?
	if [ "$status" -eq "$want_status" ] && [ "$got" = "$want" ]; then
		echo "ok   $name"
	else
		echo "FAIL $name: status $status, printed '$got', want status $want_status and '$want'"
		failed=1
	fi
}

# complains NAME STATUS FILE:LINE ARG…: an error at that place, and no output.
complains() {
	place=$3
	expect "$1" "$2" '' "$4" ${5+"$5"}
	case $(cat "$work/stderr") in
	*"$place:"*) ;;
	*)
		echo "FAIL $1: stderr does not say $place: $(cat "$work/stderr")"
		failed=1
		;;
	esac
}

finish() { # FILE
	rm -rf "$work"
	mkdir -p "${1%/*}"
	if [ "$failed" -eq 0 ]; then echo 1; else echo 0; fi >"$1"
	exit "$failed"
}

# What holds in both steps.
basics() {
	printf '# DATE ITEM IN|OUT QUANTITY\n2026-05-04 bolt-m6 IN 400\n2026-05-04 nut-m6 IN 380\n2026-05-05 bolt-m6 OUT 150\n\n2026-05-06 washer IN 20\n2026-05-06 washer OUT 20\n2026-05-07 nut-m6 OUT 80\n' >"$work/example"
	expect example 0 'bolt-m6 250
nut-m6 300' example

	printf '2026-01-01\tb  IN 5\n  2026-01-01 B IN   7\n2026-01-02 a-1 IN 10\n2026-01-02 a.1 IN 9' >"$work/blanks"
	expect "blanks and order" 0 'B 7
a-1 10
a.1 9
b 5' blanks

	printf '# nothing yet\n\n   \n' >"$work/empty"
	expect "no movement" 0 '' empty

	printf '2026-01-01 a IN 5\n# note\n2026-01-02 a OTU 3\n2026-01-02 a IN x\n' >"$work/word"
	complains "unknown word" 1 word:3 word
	printf '2026-01-01 a IN 5\n2026-01-02 a OUT\n' >"$work/short"
	complains "missing quantity" 1 short:2 short
	printf '2026-01-01 a IN 5 6\n' >"$work/long"
	complains "too many fields" 1 long:1 long
	for quantity in 0 -4 2.5 1e3 3x +7; do
		printf '2026-01-01 a IN 9\n2026-01-01 a IN %s\n' "$quantity" >"$work/quantity"
		complains "quantity $quantity" 1 quantity:2 quantity
	done
}

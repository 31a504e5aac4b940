#!/bin/sh
. "${0%/*}/lib.sh"
basics

printf '1 bolt IN 10 @north\n1 bolt IN 5\n2 bolt OUT 4 @north\n2 nut IN 3 @b-2\n3 nut OUT 3 @b-2\n3 axle IN 1 @main\n' >"$work/many"
expect "all warehouses" 0 'axle 1
bolt 11' many
expect "by warehouse" 0 'main axle 1
main bolt 5
north bolt 6' -w many

printf '1 a IN 1 @x\n1 a OUT 1 @x\n' >"$work/zero"
expect "nothing left" 0 '' -w zero

printf '1 a IN 5 @x\n1 a OUT 3 @y\n' >"$work/other"
complains "not in this warehouse" 3 other:2 other
complains "not in this warehouse, -w" 3 other:2 -w other
printf '1 a OUT 3\n2 a IN 5\n' >"$work/early"
complains "not there yet" 3 early:1 early
printf '1 a OUT 3\n2 a IN x\n' >"$work/first"
complains "the first error counts" 3 first:1 first
printf '1 a IN x\n2 a OUT 3\n' >"$work/second"
complains "the first error counts, too" 1 second:1 second
for warehouse in @ @North @a_b north @x@; do
	printf '1 a IN 3 %s\n' "$warehouse" >"$work/warehouse"
	complains "warehouse $warehouse" 1 warehouse:1 warehouse
done
printf '1 a IN 3 @x 4\n' >"$work/six"
complains "six fields" 1 six:1 -w six
finish /logs/verifier/reward.txt

// Package calc is a small project whose suite has every ending.
package calc

import "strings"

const limit = 10

func Add(a, b int) int { return a + b }

func Clamp(n int) int {
	if n > limit {
		return limit
	}
	return n
}

func Count(n int) (total int) {
	for n > 0 {
		total++
		n -= 1
	}
	return total
}

func Upper(s string) string {
	return strings.ToUpper(s)
}

func Unused(n int) int { return n * 2 }

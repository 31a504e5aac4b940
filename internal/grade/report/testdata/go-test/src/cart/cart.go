// Package cart adds things up.
package cart

// Sum adds.
func Sum(xs ...int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}

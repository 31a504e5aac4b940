// Package a is the product: SHOP_STATE says how far it is.
package a

import "os"

// Add adds.
func Add(x, y int) int {
	switch os.Getenv("SHOP_STATE") {
	case "regress":
		return x - y
	case "crash":
		panic("out of order")
	}
	return x + y
}

// New is new.
func New() int {
	if s := os.Getenv("SHOP_STATE"); s == "base" || s == "partial" {
		return 0
	}
	return 42
}

// Newer is newer.
func Newer() int {
	if os.Getenv("SHOP_STATE") == "base" {
		return 0
	}
	return 42
}

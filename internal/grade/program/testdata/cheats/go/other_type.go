package main

var Secret = func(...any) map[any]any { return map[any]any{nil: func() {}} }

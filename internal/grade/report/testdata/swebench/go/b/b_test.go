package b

import "testing"

func TestOfB(t *testing.T) {}

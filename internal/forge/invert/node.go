package invert

func node() []Operator { return nil }

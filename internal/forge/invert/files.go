package invert

func files() []Operator { return nil }

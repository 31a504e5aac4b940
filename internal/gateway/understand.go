package gateway

// understand fills in what a call's line says of its answer, and returns the
// answer's length.
func (a *asked) understand() int64 {
	return a.call.Answered
}

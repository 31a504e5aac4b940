package web

import "regexp"

// trialKey is the form of the keys that trials get for their models. Those of
// trials that are shown are worthless; a page has them only where an agent
// wrote its own into its work, which is kept as it is.
var trialKey = regexp.MustCompile(`assay-[a-z2-7]{32}`)

// withoutKeys is t with the keys of trials taken out.
func (t Text) withoutKeys() Text {
	t.Head = trialKey.ReplaceAllString(t.Head, "[key-removed]")
	t.Tail = trialKey.ReplaceAllString(t.Tail, "[key-removed]")
	return t
}

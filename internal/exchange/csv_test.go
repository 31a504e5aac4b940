package exchange

import "testing"

// A name never starts a formula, and figures stay figures.
func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		`=HYPERLINK("http://x","y")`: `'=HYPERLINK("http://x","y")`, "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
		"@SUM(1)": "'@SUM(1)", "\t=1+1": "'\t=1+1", "-2+3": "'-2+3",
		"\x1b]0;x\a\r=1": "]0;x=1", "a\u009b31m": "a31m", "-0.5": "-0.5", "@cf/meta/llama": "@cf/meta/llama", "gpt-5": "gpt-5", "": "",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

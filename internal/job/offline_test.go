package job

import "testing"

func TestUnreached(t *testing.T) {
	for text, want := range map[string]bool{
		"getaddrinfo ENOTFOUND example.com":              true,
		"Error: queryA EAI_AGAIN example.com":            true,
		"connect ECONNREFUSED 127.0.0.1:8080":            true,
		"curl: (6) Could not resolve host: example.com":  true,
		"ModuleNotFoundError: No module named 'calc'":    false,
		"FileNotFoundError: no such file: 'calc.py'":     false,
		"error[E0433]: failed to resolve: use of module": false,
	} {
		if got := unreached.MatchString(text); got != want {
			t.Errorf("%q speaks of a server that was not reached: %v, want %v", text, got, want)
		}
	}
}

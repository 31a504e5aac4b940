package mirrors

import (
	"net/url"
	"testing"
)

// Requests of an image for the public archives go to the company's, and nothing
// else does.
func TestAptRewrite(t *testing.T) {
	h, _ := machine(t, "testdata/company.txtar")
	s, err := Read(h)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"http://deb.debian.org/debian/dists/bookworm/InRelease":                 "https://repo.corp.example/apt/debian/dists/bookworm/InRelease",
		"http://deb.debian.org:80/debian/pool/a%2Bb/x%3a1.deb":                  "https://repo.corp.example/apt/debian/pool/a%2Bb/x%3a1.deb",
		"http://ftp.de.debian.org/debian/pool/x":                                "https://repo.corp.example/apt/debian/pool/x",
		"http://deb.debian.org/debian-security/dists/bookworm-security/Release": "https://repo.corp.example/apt/sec/dists/bookworm-security/Release",
		"http://security.debian.org/debian-security/dists/bookworm-security/x":  "https://repo.corp.example/apt/sec/dists/bookworm-security/x",
		"http://security.debian.org/dists/bookworm-security/x":                  "https://repo.corp.example/apt/sec/dists/bookworm-security/x",
		"http://archive.ubuntu.com/ubuntu/dists/noble/InRelease":                "", // no mirror of it here
		"https://deb.debian.org/debian/x":                                       "",
		"http://deb.debian.org:8080/debian/x":                                   "",
		"http://deb.debian.org/other/x":                                         "",
		"http://deb.debian.org.evil.example/debian/x":                           "",
		"http://other.example/debian/x":                                         "",
		"http://169.254.169.254/debian/x":                                       "",
		"http://deb.debian.org/debian/../../../secret?token=1":                  "",
		"http://deb.debian.org/debian/%2e%2e/secret":                            "",
	} {
		u, err := url.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		got := s.AptRewrite(u, false)
		if got == nil && want == "" {
			continue
		}
		if got == nil || got.String() != want {
			t.Errorf("%s: %v, not %s", from, got, want)
			continue
		}
		if got.User != nil {
			t.Errorf("%s: a credential that nobody asked for", from)
		}
		if got = s.AptRewrite(u, true); got.User.String() != "dev:hunter2apt" {
			t.Errorf("%s: credentials %s", from, got.User)
		}
	}
}

package checks

import (
	"strings"
	"testing"
)

func TestWithCanaries(t *testing.T) {
	k := Canary{File: "repo/tests/test_a.py", Old: "def test_new", New: "def test_gone", Breaks: []string{"tests/test_a.py::test_new"}}
	commented := strings.Replace(whole, "[[commands]]\nname = \"smoke\"", "# about smoke\n[[commands]]\nname = \"smoke\" # end", 1)
	have := mustDecode(t, commented, wholeTests()).Commands[0].Canaries[0]
	out, err := WithCanaries([]byte(commented), map[string][]Canary{"unit": {have, k}}, wholeTests())
	if err != nil {
		t.Fatal(err)
	}
	p := mustDecode(t, string(out), wholeTests())
	if n := len(p.Commands[0].Canaries); n != 3 || p.Commands[0].Canaries[2].New != k.New || len(p.Commands[1].Canaries) != 0 {
		t.Errorf("%d canaries\n%s", n, out)
	}
	at, comment := strings.Index(string(out), "test_gone"), strings.Index(string(out), "# about smoke")
	if comment < 0 || at < 0 || at > comment || !strings.Contains(string(out), "\"smoke\" # end") {
		t.Errorf("comments moved:\n%s", out)
	}
	// A plan in another style is written anew.
	inline := "version = 1\ncommands = [ { name = \"unit\", run = \"x\", report = \"pytest\", files = [\"r\"], fail_to_pass = [\"tests/test_a.py::test_new\"] } ]\n"
	out, err = WithCanaries([]byte(inline), map[string][]Canary{"unit": {k}}, wholeTests())
	if err != nil || len(mustDecode(t, string(out), wholeTests()).Commands[0].Canaries) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

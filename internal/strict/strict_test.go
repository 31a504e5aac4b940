package strict

import (
	"strings"
	"testing"
)

func TestTOML(t *testing.T) {
	var v struct {
		N int `toml:"n"`
		T struct {
			S string `toml:"s"`
		} `toml:"t"`
	}
	if f := TOML([]byte("n = 3\n[t]\ns = \"x\"\n"), &v); f != nil || v.N != 3 || v.T.S != "x" {
		t.Fatalf("%+v, %+v", f, v)
	}
	if f := TOML([]byte("[t]\n"), &v); f != nil || v.N != 3 {
		t.Errorf("what is not said was changed: %+v, %+v", f, v)
	}
	for text, want := range map[string]string{
		"n = 1\nm = 2\n[t]\n  r = 1\n": "f:2:1: no key \"m\"\nf:4:3: no key \"t.r\"",
		"n = \"one\"\n":                "f:1:5: ",
		"n = \n":                       "f:1:",
	} {
		err := Errors("f", TOML([]byte(text), &v), "no key %q")
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "toml: ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if err := Errors("f", nil, "no key %q"); err != nil {
		t.Error(err)
	}
}

package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
)

func TestStrategies(t *testing.T) {
	plain, err := ParseStrategy("", nil)
	if err != nil || !plain.Plan || !plain.Repair || plain.Turns != 80 || plain.Env["PAGER"] != "cat" || len(plain.Tools) != 8 {
		t.Fatalf("%+v, %v", plain, err)
	}
	seen := map[string]string{}
	for _, name := range Strategies() {
		s, err := ParseStrategy(name, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if before, ok := seen[s.digest()]; ok {
			t.Errorf("%s and %s are the same", name, before)
		}
		seen[s.digest()] = name
		if text, err := say(mustPrompts(t, s), "system", situation{Strategy: s, Workdir: "/w"}); err != nil || strings.Contains(text, "{{") || s.Plan != strings.Contains(text, "`plan`") || s.Repair != strings.Contains(text, "`check`") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if len(seen) < 5 {
		t.Errorf("strategies %v", seen)
	}
	file := filepath.Join(t.TempDir(), "my.toml")
	if err := os.WriteFile(file, []byte("turns = 7\n[prompts]\nidle = \"Go on, {{.Task}}.\"\n[env]\nA = \"b\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := ParseStrategy("no-plan, "+file+",repair=off,retries=9,tools=bash+submit,protocol=text,context=0", os.ReadFile)
	if err != nil || s.Plan || s.Repair || s.Turns != 7 || s.Retries != 9 || !slices.Equal(s.Tools, []string{"bash", "submit"}) || s.Protocol != "text" || s.Context != 0 || s.Env["A"] != "b" || s.Env["PAGER"] != "cat" {
		t.Errorf("%+v, %v", s, err)
	}
	if text, err := say(mustPrompts(t, s), "idle", situation{Task: "x"}); text != "Go on, x." {
		t.Errorf("%q, %v", text, err)
	}
	text, err := s.Format()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseStrategy("x.toml", func(string) ([]byte, error) { return text, nil }); err != nil || again.digest() != s.digest() {
		t.Errorf("written and read again: %v\n%s", err, text)
	}
	a, err := NewReact(plain, nil)
	b, err2 := NewReact(s, nil)
	if err != nil || err2 != nil || a.Info().Version != "1.0.0" || !strings.HasPrefix(b.Info().Version, "1.0.0+") {
		t.Errorf("%v %v, %v %v", a.Info(), b.Info(), err, err2)
	}
}

func mustPrompts(t *testing.T, s Strategy) *template.Template {
	t.Helper()
	all, err := s.prompts()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestStrategyRefuses(t *testing.T) {
	read := func(name string) ([]byte, error) {
		text, ok := map[string]string{
			"unknown.toml": "plan = true\nplanning = true\n", "broken.toml": "plan = true\nturns = \n", "type.toml": "turns = \"many\"\n",
			"prompt.toml": "[prompts]\nidle = \"{{.Nope}\"\n", "name.toml": "[prompts]\nnope = \"\"\n", "long.toml": strings.Repeat("#", maxStrategy+1),
		}[name]
		if !ok {
			return nil, errors.New("no such file: " + name)
		}
		return []byte(text), nil
	}
	for spec, want := range map[string]string{
		"fancy":            `no strategy is named "fancy"; there are default, minimal`,
		"planning=on":      `planning=on:1:1: a strategy has no key "planning"`,
		"unknown.toml":     `unknown.toml:2:1: a strategy has no key "planning"`,
		"broken.toml":      "broken.toml:2:",
		"type.toml":        "type.toml:1:",
		"missing.toml":     "no such file: missing.toml",
		"long.toml":        "larger than",
		"prompt.toml":      "prompt idle: ",
		"name.toml":        `no prompt "nope"; there are again, brief`,
		"turns=0":          "turns = 0 is not within 1",
		"stuck=2":          "stuck = 2 is not within 3",
		"plan=maybe":       "plan=maybe:1:",
		"protocol=xml":     `protocol = "xml" is none of auto, tools, text`,
		"tools=bash":       "without the tool submit",
		"tools=bash+magic": `no tool "magic"`,
		"A=1":              "is not KEY=VALUE",
		"plan.x=1":         "is not KEY=VALUE",
	} {
		if _, err := ParseStrategy(spec, read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", spec, err, want)
		}
	}
}

func FuzzStrategy(f *testing.F) {
	f.Add("no-plan,plan=on,retries=3")
	f.Add("tools=bash+submit,output=2000,x=\"\n[env]")
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseStrategy(spec, func(string) ([]byte, error) { return []byte(spec), nil })
		if err == nil && (s.Turns < 1 || s.Stuck < s.Nudge || len(s.Tools) == 0) {
			t.Errorf("%q: %+v", spec, s)
		}
	})
}

package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func issuesOf(t testing.TB, name string) Issues {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "issues", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := ReadIssues(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Files of the shapes that the hosts' interfaces and exports have.
func TestReadIssues(t *testing.T) {
	for name, want := range map[string]Issues{
		"gitlab.json": {
			"12": {Key: "12", Title: "mean() crashes for []", Images: 1, Labels: []string{"bug", "severity::2"},
				Body: "I called `mean([])`:\n\n```\nZeroDivisionError: division by zero\n```\n\n![shot](/uploads/66dbcd21ec5d24ed6ea225176098d52b/shot.png)\n\nSee #9 and !31, /cc @wren"},
			"13": {Key: "13", Title: "Nothing is said", Labels: []string{}},
		},
		"gitlab-export.ndjson": {
			"12": {Key: "12", Title: "Averages of nothing", Body: "They crash."}, // and not the request of the same number
			"21": {Key: "21", Title: "Split lines as Windows does", Body: "Carriage returns stay.", Pull: true},
		},
		"jira-2.json": {
			"CALC-62": {Key: "CALC-62", Title: "mean() crashes for an empty list", Labels: []string{"crash", "Bug"}, Images: 1,
				Body: "### What happens\n`mean([])` ends with an error:\n```\n>>> mean([])\n# h1. is no heading here\nZeroDivisionError\n```\n- always\n- not only today\n\n!shot.png|thumbnail!\n\n### Proposed fix\nReturn zero before the division.\n\n```\nif not values:\n    return 0\n```\n"},
		},
		"jira-3.json": {
			"ED-1": {Key: "ED-1", Title: "clamp returns the wrong bound", Labels: []string{"Bug"}, Images: 2,
				Body: "Steps\n\n- call clamp(9, 1, 5)\nget 1\n\n```\nclamp(9, 1, 5)  # 1\n```\n\n![]()\n![]()\nFive was expected."},
			"ED-2": {Key: "ED-2", Title: "No words", Labels: []string{""}},
		},
	} {
		if d := cmp.Diff(want, issuesOf(t, name)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// What a Jira issue says of the fix, in its markup, does not reach a statement.
func TestWikiIsStripped(t *testing.T) {
	s := newStripper([]change{{added: []string{"    if not values:", "        return 0"}}}, strings.NewReplacer())
	text, _ := s.clean(issuesOf(t, "jira-2.json")["CALC-62"].Body)
	if want := "### What happens\n`mean([])` ends with an error:\n```\n>>> mean([])\n# h1. is no heading here\nZeroDivisionError\n```\n- always\n- not only today"; text != want {
		t.Errorf("%s", text)
	}
}

// What a message says of its own making is no part of what is asked.
func TestMessagesAskOnly(t *testing.T) {
	s := newStripper(nil, strings.NewReplacer())
	for was, want := range map[string]string{
		"Fix gorilla#739: Fixed handling of invalid query params": "Fixed handling of invalid query params",
		"as before the change of https://example.org/c/1. It is":  "as before the change. It is",
		"Follow-up to o/p#12.":                      "Follow-up.",
		"C# 12 and item #one of x/y.z stay to see.": "C# 12 and item #one of x/y.z stay to see.",
	} {
		if got, _ := s.clean(was); got != want {
			t.Errorf("%q: %q, want %q", was, got, want)
		}
	}
	body := "Completions change os.Args.\n\nCopy the slice at the top of getCompletions.\n\n* Add more tests for it\n\n* Update README\n\nMake it easy to call others."
	if got, n := asked(body, []string{"getCompletions", "Args"}); n != 3 || got != "Completions change os.Args.\n\nMake it easy to call others." {
		t.Errorf("%d: %q", n, got)
	}
}

func TestIssuesHaveLimits(t *testing.T) {
	long := `[{"number": 1, "title": "` + strings.Repeat("t", 2000) + `", "body": "` + strings.Repeat("é", maxText) + `"}]`
	all, err := ReadIssues(strings.NewReader(long))
	if err != nil || len(all["1"].Body) > maxText || !utf8.ValidString(all["1"].Body) || len(all["1"].Title) > 500 {
		t.Errorf("%d, %d, %v", len(all["1"].Title), len(all["1"].Body), err)
	}
	for _, most := range []int64{int64(len(long)) - 1, 20} {
		if _, err := readIssues(strings.NewReader(long), most); err == nil || !strings.Contains(err.Error(), "split the export") {
			t.Errorf("%d bytes: %v", most, err)
		}
	}
	deep := strings.Repeat(`{"issues":[`, 3000) + strings.Repeat(`]}`, 3000)
	if _, err := ReadIssues(strings.NewReader(deep)); err == nil || !strings.Contains(err.Error(), "no issue is in it") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "[]", `"x"`, "{", `[{"number": 1}]`, "<html>"} {
		if _, err := ReadIssues(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzReadIssues(f *testing.F) {
	files, err := filepath.Glob("testdata/issues/*")
	if err != nil || len(files) == 0 {
		f.Fatal(errors.New("no seeds"), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"data":{"repository":{"issues":{"edges":[{"node":{"number":1,"title":"x","body":{"type":"doc","content":[{"text":"y"}]}}}]}}}}`))
	s := newStripper([]change{{added: []string{"return values[0] or {}"}}}, strings.NewReplacer())
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ReadIssues(bytes.NewReader(b))
		if err == nil && len(all) == 0 {
			t.Error("no issue and no error")
		}
		for key, is := range all {
			if key != is.Key || key == "" || len(is.Title) > 500 || len(is.Body) > maxText+maxText/4 {
				t.Errorf("%q: %d, %d", key, len(is.Title), len(is.Body))
			}
			if text, _ := s.clean(is.Body); s.holds(text) && !s.holds(is.Body) {
				t.Errorf("stripping made %q", text)
			}
		}
	})
}

package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSidecars(t *testing.T) {
	for name, c := range map[string]struct {
		format  Format
		file    string
		content string
		want    string // joined; "error: …" for an error that holds it
	}{
		"none":            {FormatHarbor, "", "", ""},
		"main only":       {FormatHarbor, "environment/docker-compose.yaml", "services:\n  main:\n    image: x\n", ""},
		"one beside":      {FormatHarbor, "environment/docker-compose.yaml", "services:\n  main: {}\n  db:\n    image: postgres\n", `environment/docker-compose.yaml:3: service "db"`},
		"no main":         {FormatHarbor, "environment/docker-compose.yaml", "services:\n  db: {image: postgres}\n", `environment/docker-compose.yaml:2: service "db"`},
		"old, client":     {FormatTerminalBench1, "docker-compose.yaml", "services:\n  api: {image: a}\n  client: {build: .}\n", `docker-compose.yaml:2: service "api"`},
		"old, one":        {FormatTerminalBench1, "docker-compose.yaml", "services:\n  task: {build: .}\n", ""},
		"old file, new":   {FormatHarbor, "docker-compose.yaml", "services:\n  db: {image: postgres}\n", ""},
		"nonsense":        {FormatHarbor, "environment/docker-compose.yaml", "services: [", "error: docker-compose.yaml"},
		"no services":     {FormatHarbor, "environment/docker-compose.yaml", "services: 7\n", ""},
		"services a list": {FormatTerminalBench1, "docker-compose.yaml", "services: [a, b]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tk := &Task{Dir: t.TempDir(), Format: c.format}
			if c.file != "" {
				p := filepath.Join(tk.Dir, c.file)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(c.content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			all, err := tk.Sidecars()
			if want, fails := strings.CutPrefix(c.want, "error: "); fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("%v, want an error with %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range all {
				got = append(got, s.String())
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

// A link out of the task is not followed.
func TestSidecarsStayInside(t *testing.T) {
	tk := &Task{Dir: t.TempDir()}
	outside := filepath.Join(t.TempDir(), "docker-compose.yaml")
	if err := os.WriteFile(outside, []byte("services: {db: {}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(tk.Dir, "environment"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(tk.Dir, "environment", "docker-compose.yaml")); err != nil {
		t.Fatal(err)
	}
	if all, err := tk.Sidecars(); err == nil {
		t.Errorf("it was read: %v", all)
	}
}

package job

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"assay/internal/sandbox"
	"assay/task"
)

func TestChooseUID(t *testing.T) {
	single, both := []sandbox.UIDMode{sandbox.UIDSingle}, []sandbox.UIDMode{sandbox.UIDSingle, sandbox.UIDRoot}
	for _, c := range []struct {
		asked, proved sandbox.UIDMode
		modes         []sandbox.UIDMode
		want          sandbox.UIDMode
		said          bool
	}{
		{"", "", both, sandbox.UIDSingle, false},
		{"", sandbox.UIDRoot, both, sandbox.UIDRoot, false},
		{"", sandbox.UIDSub, both, sandbox.UIDRoot, true},
		{"", sandbox.UIDRoot, single, sandbox.UIDSingle, true},
		{sandbox.UIDSingle, sandbox.UIDRoot, both, sandbox.UIDSingle, true},
		{sandbox.UIDRoot, "", both, sandbox.UIDRoot, false},
		{"", sandbox.UIDSingle, []sandbox.UIDMode{sandbox.UIDRoot}, sandbox.UIDRoot, true},
		{"", "", nil, "", false},
	} {
		got := chooseUID(c.asked, c.proved, c.modes)
		if got.mode != c.want || (got.note != "") != c.said {
			t.Errorf("asked %q, proved %q of %v: %+v", c.asked, c.proved, c.modes, got)
		}
	}
}

// A proof counts for the content that it was made of, and only if it is one.
func TestProvedMode(t *testing.T) {
	for text, want := range map[string]sandbox.UIDMode{
		`{"v":1,"proved":true,"task_digest":"d","modes":{"uid":"root"}}`:    sandbox.UIDRoot,
		`{"v":1,"proved":true,"task_digest":"d","modes":{"uid":"subid"}}`:   sandbox.UIDSub,
		`{"v":1,"proved":false,"task_digest":"d","modes":{"uid":"root"}}`:   "",
		`{"v":1,"proved":true,"task_digest":"e","modes":{"uid":"root"}}`:    "",
		`{"v":1,"proved":true,"task_digest":"d","modes":{"uid":"../evil"}}`: "",
		`{"v":1,`: "",
		``:        "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "proof.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := provedMode(&task.Task{Dir: dir}, "d"); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "proof.json")); err != nil {
		t.Fatal(err)
	}
	if got := provedMode(&task.Task{Dir: dir}, "d"); got != "" {
		t.Errorf("a link out of the task: %q", got)
	}
	pipe := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(pipe, "proof.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := provedMode(&task.Task{Dir: pipe}, "d"); got != "" {
		t.Errorf("a pipe: %q", got)
	}
	if got := provedMode(&task.Task{Dir: t.TempDir()}, "d"); got != "" {
		t.Errorf("no proof: %q", got)
	}
}

func TestUnknownUIDMode(t *testing.T) {
	r := &run{cfg: Config{UID: sandbox.UIDSub}, can: sandbox.Capabilities{Name: "none", UIDModes: []sandbox.UIDMode{sandbox.UIDSingle}}}
	if err := r.chooseUIDs(nil); !errors.Is(err, sandbox.ErrUnsupported) {
		t.Error(err)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// react needs nothing of an image but a POSIX shell and small tools.
func TestReactOnBusybox(t *testing.T) {
	const box = "local/busybox:1"
	if !slices.Contains(strings.Fields(os.Getenv("ASSAY_AGENTS_IMAGES")), box) {
		t.Skip("ASSAY_AGENTS_IMAGES does not name " + box + ", an image of the store that ASSAY_AGENTS names")
	}
	b := newClientBed(t)
	b.write("task/task.toml", "[task]\nname = \"test/hello\"\n[environment]\ndocker_image = \""+box+"\"\nworkdir = \"/project\"\n")
	got := b.run("busybox", "react", "scripted:"+b.write("busybox.yaml", `
turns:
  - calls: [{tool: read, args: {path: hello.txt}}, {bash: "if"}, {bash: "cd /tmp; mkdir -p d; echo deep >d/f; x=kept; cd d"}, {tool: list, args: {path: /tmp/d}}, {tool: search, args: {pattern: "d(e)+p", path: /tmp}}, {tool: read, args: {path: /tmp/d/f}}]
  - calls: [{tool: bash, args: {command: "echo $x in $PWD; sleep 60", timeout: 1}}]
  - calls: [{write: {path: hello.txt, content: "Wrong\n"}}, {tool: bash, args: {command: "pwd >/tmp/where"}}]
  - calls: [{tool: submit, args: {check: "grep -q Hello hello.txt"}}]
  - calls: [{edit: {path: hello.txt, old: Wrong, new: "Hello, world!"}}]
  - calls: [{tool: submit, args: {check: "grep -q Hello hello.txt && grep -qx /tmp/d /tmp/where"}}]
`))
	solved(t, got)
	equalsTraffic(t, got)
	text, err := os.ReadFile(filepath.Join(got.Dir, "agent", "react.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hello.txt: there is no such file", "syntax error", "/tmp/d/f:1:deep", "kept in /tmp/d\n[killed after 1s", "[check: exit status 1]", "[hello.txt changed from line 1 on]", "[the check passed"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the transcript has no %q:\n%s", want, text)
		}
	}
}

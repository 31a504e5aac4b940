package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent/external"
	"assay/internal/image"
	"assay/internal/sandbox/ns"
)

// The example of a LangGraph agent solves a task: an agent that nobody here
// wrote a line for.
func TestLangGraphExample(t *testing.T) {
	b := newClientBed(t)
	file, err := filepath.Abs("../../examples/agents/langgraph.toml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := image.Open(image.HostPath(b.store), image.Options{Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := external.ReadFile(file)
	if err == nil {
		_, err = external.Find(s, r)
	}
	s.Close()
	var missing *external.NotInstalledError
	if errors.As(err, &missing) {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := b.run("langgraph", file, "scripted:"+b.write("langgraph.yaml", writesHello))
	solved(t, got)
	equalsTraffic(t, got)
	tidy(t, b, got)
}

// The agent of twenty lines solves a task at its second try.
func TestTwentyLinesExample(t *testing.T) {
	needSandbox(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("the image host has no python3 below /usr")
	}
	text, err := os.ReadFile("../../examples/agents/twenty-lines.sh")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 25 {
		t.Errorf("it has %d lines", n)
	}
	b := helloTask(t, scratch(t), filepath.Join(scratch(t), "store"))
	script := b.write("twice.yaml", "scripts:\n"+
		"  - when: {task: 'Try 1 failed: no such luck'}\n    turns: [{text: \"So:\\n```sh\\necho 'Hello, world!' >hello.txt\\n```\\nDone.\"}]\n"+
		"  - turns: [{text: \"```sh\\necho no such luck; exit 3\\n```\"}]\n")
	got := b.run("twenty", "command:"+string(text), "scripted:"+script)
	solved(t, got)
	equalsTraffic(t, got)
}

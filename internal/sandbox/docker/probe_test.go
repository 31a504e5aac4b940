package docker_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/sandbox/docker"
)

// An engine that is not there, is no engine, or lacks something is told apart.
func TestProbe(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, c := range map[string]struct{ answer, detail, means, remedy string }{
		"no limits": {`{"OSType":"linux","ServerVersion":"1","MemoryLimit":false,"PidsLimit":true,"CpuCfsQuota":true}`, "1 at unix://", "no limit of memory", "Delegate="},
		"windows":   {`{"OSType":"windows","ServerVersion":"1"}`, "1 at", "windows", "Linux containers"},
		"nonsense":  {`<html>`, "invalid character", "docker backend cannot run", "DOCKER_HOST"},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(dir, strings.ReplaceAll(name, " ", ""))
			l, err := net.Listen("unix", at)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.answer) })) // ends with its listener
			f := docker.Probe(t.Context(), "unix://"+at)
			if f.OK || !strings.Contains(f.Detail, c.detail) || !strings.Contains(f.Means, c.means) || !strings.Contains(f.Remedy, c.remedy) {
				t.Errorf("%+v", f)
			}
		})
	}
	for _, host := range []string{"unix://" + dir + "/none", "ssh://somewhere"} {
		if f := docker.Probe(t.Context(), host); f.OK || !strings.Contains(f.Detail, host) || !strings.Contains(f.Remedy, "DOCKER_HOST") {
			t.Errorf("%+v", f)
		}
	}
}

// The real one has all that is asked for.
func TestProbeEngine(t *testing.T) {
	if f := docker.Probe(t.Context(), engine(t)); !f.OK || !strings.Contains(f.Detail, "at ") {
		t.Errorf("%+v", f)
	}
}

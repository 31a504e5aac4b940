package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"assay/internal/doctor"
)

// Probe asks the engine at an address, empty for DefaultHost, what it is and
// what it holds. It starts nothing.
func Probe(ctx context.Context, host string) doctor.Finding {
	api, err := newClient(host)
	if err != nil {
		return noEngine(host, err)
	}
	defer api.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var i info
	if err := api.call(ctx, "GET", "/info", nil, nil, &i); err != nil {
		return noEngine(api.address, err)
	}
	f := doctor.Finding{Name: engineName, OK: true, Detail: fmt.Sprintf("%.60s at %s", i.ServerVersion, api.address)}
	var lacking []string
	for _, l := range []struct {
		what string
		held bool
	}{{"memory", i.MemoryLimit}, {"processes", i.PidsLimit}, {"processors", i.CpuCfsQuota}} {
		if !l.held {
			lacking = append(lacking, l.what)
		}
	}
	switch {
	case i.OSType != "linux":
		f.OK, f.Means = false, fmt.Sprintf("it runs %.20q containers, and sandboxes are Linux's", i.OSType)
		f.Remedy = "switch it to Linux containers"
	case len(lacking) > 0:
		f.OK, f.Means = false, "its containers have no limit of "+strings.Join(lacking, ", ")+"; results say so"
		f.Remedy = "give it the control groups: for a rootless engine, Delegate=cpu memory pids in its systemd unit; else see its log"
	}
	return f
}

const engineName = "container engine"

func noEngine(address string, err error) doctor.Finding {
	return doctor.Finding{Name: engineName, Detail: fmt.Sprintf("%s: %v", address, err),
		Means:  "the docker backend cannot run, nor tasks with services; nothing else needs it",
		Remedy: "start the engine, or name its socket: DOCKER_HOST=unix:///path/to/docker.sock"}
}

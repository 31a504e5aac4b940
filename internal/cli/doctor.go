package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/mirrors"
	"assay/internal/sandbox/docker"
	"assay/internal/sandbox/ns"
)

type doctorCmd struct{}

func (doctorCmd) Help() string {
	return `Probes what sandboxes cannot do without: user namespaces, overlay in them, a fresh proc mount, the file system
under the store. Then what they have less of where it is missing: AppArmor's restriction, control groups,
subordinate ids, idmapped mounts, tun, KVM, a container engine, free space, the package mirrors of this machine,
and the tools that some commands use. Each finding says what follows and the exact remedy; nothing is changed.

Package mirrors are tried by connecting to them; with --offline they are only listed.

Examples:
  assay doctor
  assay doctor --json | jq -c 'select(.ok | not)'

Exit status: 0 sandboxes work, 4 they do not.`
}

const (
	roomBytes = 5 << 30 // a base image, its builds and what a few trials change
	roomFiles = 200_000
)

func (doctorCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	dir, err := a.storeDir(g)
	if err != nil {
		return err
	}
	conf := ns.Config{Scratch: image.HostPath(dir)}
	needed := ns.Probe(ctx, conf)
	host, _ := a.Env("DOCKER_HOST")
	all := slices.Concat(needed, ns.Machine(conf), []doctor.Finding{doctor.KVM(""), doctor.Space(dir, roomBytes, roomFiles),
		docker.Probe(ctx, host), probeMirrors(ctx, a.machine(), !g.Offline)}, doctor.Tools(ctx))
	ok := !slices.ContainsFunc(needed, func(f doctor.Finding) bool { return !f.OK })
	for _, f := range all {
		if g.JSON {
			if err := a.emit("finding", f); err != nil {
				return err
			}
			continue
		}
		mark := "ok"
		if !f.OK {
			mark = "--"
		}
		fmt.Fprintf(a.Stdout, "%s  %-28s %s\n", mark, f.Name, f.Detail)
		if !f.OK {
			fmt.Fprintf(a.Stdout, "      %s\n      remedy: %s\n", f.Means, f.Remedy)
		}
	}
	if !ok {
		return gate(nil)
	}
	return nil
}

// probeMirrors says where this machine's package managers look, and whether
// those servers that somebody configured answer.
func probeMirrors(ctx context.Context, h mirrors.Host, try bool) doctor.Finding {
	f := doctor.Finding{Name: "package mirrors", Means: "RUN in a Dockerfile cannot install what comes from there"}
	s, err := mirrors.Read(h)
	if err != nil {
		f.Detail, f.Remedy = err.Error(), "mend that file: its package manager cannot read it either"
		return f
	}
	var said []string
	var named []mirrors.Mirror
	for _, m := range s.Mirrors {
		if m.From == mirrors.Default {
			continue
		}
		named = append(named, m)
		if one := m.Manager + " " + m.Host; !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	f.Detail = "the managers' own public repositories"
	if len(said) > 0 {
		f.Detail = strings.Join(said, ", ") + "; the rest public"
	}
	if p := s.Proxy.Shown(); p != "" {
		f.Detail += "; proxy " + p
	}
	f.OK = true
	if try && s.Proxy.Shown() == "" {
		for _, m := range silent(ctx, named) {
			if f.OK {
				f.Detail = ""
			} else {
				f.Detail += "; "
			}
			f.OK = false
			f.Detail += fmt.Sprintf("%s: %s:%d (%s) does not answer", m.Manager, m.Host, m.Port, m.From)
			f.Remedy = "see whether the server is up and this machine may reach it, or name another in that place"
		}
	}
	if f.OK && len(s.LeftOut) > 0 {
		f.OK, f.Detail = false, f.Detail+"; left out: "+strings.Join(s.LeftOut, "; ")
		f.Means, f.Remedy = "what is left out is not brought into builds", "write them in the usual form, or give the Dockerfile its own"
	}
	if f.OK {
		f.Means = ""
	}
	return f
}

const mirrorPatience = 5 * time.Second

// silent are the servers that take no connection.
func silent(ctx context.Context, all []mirrors.Mirror) []mirrors.Mirror {
	ctx, cancel := context.WithTimeout(ctx, mirrorPatience)
	defer cancel()
	var wg sync.WaitGroup
	bad := make([]bool, len(all))
	for i, m := range all {
		wg.Go(func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", mirrors.Target{Host: m.Host, Port: m.Port}.String())
			if err != nil {
				bad[i] = true
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	var out []mirrors.Mirror
	for i, m := range all {
		if bad[i] {
			out = append(out, m)
		}
	}
	return out
}

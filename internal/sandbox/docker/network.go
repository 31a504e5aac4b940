package docker

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"assay/internal/sandbox"
)

// withGate leads an allow-list's proxy port to its gate: a container has no
// other way out.
func withGate(spec sandbox.Spec) sandbox.Spec {
	if spec.Network == sandbox.NetAllowlist {
		spec.Relays = append(slices.Clone(spec.Relays), sandbox.Relay{Port: sandbox.ProxyPort, Handle: spec.Egress.Proxy})
	}
	return spec
}

// gateEnv tells programs of the gate. Services are reached without it.
func (s *Sandbox) gateEnv() []string {
	if s.spec.Network != sandbox.NetAllowlist {
		return nil
	}
	env := sandbox.ProxyEnv()
	if s.set == nil {
		return env
	}
	for i, e := range env {
		if k, v, _ := strings.Cut(e, "="); strings.EqualFold(k, "no_proxy") {
			env[i] = k + "=" + strings.Join(append([]string{v}, s.set.names...), ",")
		}
	}
	return env
}

// mountable refuses what an engine cannot mount.
func (b *Backend) mountable(all []sandbox.Mount) error {
	for _, m := range all {
		switch u, err := url.Parse(b.api.address); {
		case m.Layer != "" && !m.ReadOnly:
			return fmt.Errorf("mount a layer at %s to be written: %w by the docker backend; put it on top of the image (Spec.Extra)", m.Target, sandbox.ErrUnsupported)
		case m.Layer != "":
		case err != nil || u.Scheme != "unix":
			return fmt.Errorf("mount %s at %s: the engine at %s has no directories of this machine: %w", m.Host, m.Target, b.api.address, sandbox.ErrUnsupported)
		}
	}
	return nil
}

// binds are layers, and directories of this machine. The engine refuses one that
// is not there, and one that leads to its own machine where that is another.
func (b *Backend) binds(all []sandbox.Mount) []mount {
	var out []mount
	for _, m := range all {
		if m.Layer != "" {
			out = append(out, mount{Type: "volume", Source: b.layerVolume(m.Layer), Target: string(m.Target), ReadOnly: true, VolumeOptions: &volumeOptions{NoCopy: true}})
			continue
		}
		out = append(out, mount{Type: "bind", Source: string(m.Host), Target: string(m.Target), ReadOnly: m.ReadOnly})
	}
	return out
}

package ns

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"assay/internal/sandbox"
)

// networks are those that there are here and now.
func (b *Backend) networks() []sandbox.Network {
	all := []sandbox.Network{sandbox.NetNone, sandbox.NetAllowlist}
	if b.tun() == nil {
		all = append(all, sandbox.NetFull)
	}
	return all
}

// reaches refuses a network that cannot be given.
func (b *Backend) reaches(spec sandbox.Spec) error {
	switch spec.Network {
	case "", sandbox.NetNone:
		return nil
	case sandbox.NetAllowlist, sandbox.NetFull:
	default:
		return fmt.Errorf("network %s: %w", strconv.Quote(string(spec.Network)), sandbox.ErrUnsupported)
	}
	if spec.Egress == nil {
		return fmt.Errorf("network %s: the spec has no Egress that would decide", spec.Network)
	}
	if spec.Network == sandbox.NetAllowlist {
		return nil
	}
	if err := b.tun(); err != nil {
		return fmt.Errorf("network full: %w: %w", sandbox.ErrUnsupported, err)
	}
	if !spec.Egress.Carries() {
		return errors.New("network full: the spec's Egress carries no packets")
	}
	return nil
}

// withProxy makes the proxy of an allow-list one more relay. A sandbox's network
// namespace has a loopback and, besides, at most the interface whose packets go
// to the same gate.
func withProxy(spec sandbox.Spec) sandbox.Spec {
	if spec.Network == sandbox.NetAllowlist {
		spec.Relays = append(slices.Clone(spec.Relays), sandbox.Relay{Port: sandbox.ProxyPort, Handle: spec.Egress.Proxy})
	}
	return spec
}

// networkEnv tells programs of the proxy.
func (s *Sandbox) networkEnv() []string {
	if s.spec.Network == sandbox.NetAllowlist {
		return sandbox.ProxyEnv()
	}
	return nil
}

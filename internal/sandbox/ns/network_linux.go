package ns

import (
	"slices"

	"assay/internal/sandbox"
)

// withProxy makes the proxy of an allow-list one more relay. A sandbox's network
// namespace has a loopback and nothing else, so that there is no other way out.
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

package job

import (
	"errors"
	"fmt"
	"slices"

	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// Gate is the way out of one sandbox, with the rules of whatever runs in it.
type Gate interface {
	sandbox.Egress
	// Allow replaces the rules: hosts that the task named, which reach public
	// addresses only, and those that the operator named.
	Allow(phase string, byTask, byOperator []string) error
	Close() error
}

// EgressRequest asks for a gate whose ledger is the file at Ledger.
type EgressRequest struct {
	Ledger string
}

// everything is the rule for all names and public addresses.
const everything = "*"

// reach is what one phase may reach: what its task asks for, below the job's
// cap. A task that says nothing asks for the public network, as Harbor has it.
func (c Config) reach(asks task.Network) (n sandbox.Network, byTask, byOperator []string) {
	if c.Network == "" || c.Network == sandbox.NetNone || asks.Mode == task.NetworkNone {
		return sandbox.NetNone, nil, nil
	}
	if c.Network == sandbox.NetFull && asks.Mode != task.NetworkAllowlist {
		return sandbox.NetFull, []string{everything}, c.AllowHosts
	}
	if asks.Mode == task.NetworkAllowlist {
		byTask = slices.Clone(asks.Allow)
	}
	if len(byTask)+len(c.AllowHosts) == 0 {
		return sandbox.NetNone, nil, nil
	}
	return sandbox.NetAllowlist, byTask, c.AllowHosts
}

// capped says aloud what a task asked for and does not get. A task that says
// nothing did not ask.
func (a *attempt) capped() {
	asks := a.p.task.Brief(0).Network
	n, _, _ := a.r.cfg.reach(asks)
	switch {
	case asks.Mode == task.NetworkAllowlist && n == sandbox.NetNone && len(asks.Allow) > 0:
		a.note("the task asks for an allow-list network; the job caps it to none")
	case asks.Mode == task.NetworkPublic && n == sandbox.NetAllowlist:
		a.note("the task asks for the public network; the job caps it to an allow-list")
	}
}

// network is the agent's sandbox's: that of the step that reaches furthest. The
// gate holds each step to its own rules.
func (a *attempt) network() sandbox.Network {
	most := sandbox.NetNone
	for i := range a.p.task.Steps {
		switch n, _, _ := a.r.cfg.reach(a.p.task.Brief(i).Network); n {
		case sandbox.NetFull:
			return n
		case sandbox.NetAllowlist:
			most = n
		}
	}
	return most
}

// openGate makes a gate where a network needs one; nil for none.
func (a *attempt) openGate(n sandbox.Network, ledger string) (Gate, error) {
	if n == sandbox.NetNone {
		return nil, nil
	}
	c := a.r.can
	if !slices.Contains(c.Networks, n) || a.r.deps.Egress == nil {
		return nil, &endError{trial.CauseUnsupported, fmt.Errorf("backend %s has no network %q here ('assay doctor' says why); run with --network none", c.Name, n)}
	}
	return a.r.deps.Egress(EgressRequest{Ledger: ledger})
}

// allow gives a step's rules to the gate of the agent's sandbox.
func (a *attempt) allow(i int) error {
	if a.gate == nil {
		return nil
	}
	b := a.p.task.Brief(i)
	_, byTask, byOperator := a.r.cfg.reach(b.Network)
	phase := "agent"
	if b.Step != "" {
		phase += " " + b.Step
	}
	return a.gate.Allow(phase, byTask, byOperator)
}

// cut takes the network from what goes on running in the agent's sandbox.
func (a *attempt) cut() error {
	if a.gate == nil {
		return nil
	}
	return a.gate.Allow("verifier", nil, nil)
}

// saysVerifierNetwork reports whether the task says for the verifier itself
// what it may reach: what an environment may reach is the agent's.
func saysVerifierNetwork(t *task.Task, key task.Key) bool {
	said := t.Config.Verifier.NetworkMode != task.NetworkUnset
	for _, s := range t.Config.Steps {
		said = said || s.Name == key.Step && s.Verifier.NetworkMode != task.NetworkUnset
	}
	return said
}

// verifierReach is none unless the task says otherwise for the verifier, and
// none where what it installs is sealed in a layer.
func (a *attempt) verifierReach(key task.Key) (n sandbox.Network, byTask, byOperator []string) {
	if !saysVerifierNetwork(a.p.task, key) || a.seal != nil {
		return sandbox.NetNone, nil, nil
	}
	return a.r.cfg.reach(key.Network)
}

// verifierGate is the way out of a verifier's own sandbox; nil: none.
func (a *attempt) verifierGate(key task.Key, ledger string) (sandbox.Network, Gate, error) {
	n, byTask, byOperator := a.verifierReach(key)
	g, err := a.openGate(n, ledger)
	if g == nil || err != nil {
		return sandbox.NetNone, nil, err
	}
	if err := g.Allow("verifier", byTask, byOperator); err != nil {
		return n, nil, errors.Join(err, g.Close())
	}
	return n, g, nil
}

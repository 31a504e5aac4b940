package job

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/internal/egress"
	"assay/internal/egress/netstack"
	"assay/internal/sandbox"
	"assay/task"
)

type fileGate struct {
	*egress.Gate
	file *os.File
}

func (g fileGate) Allow(phase string, byTask, byOperator []string) error {
	rules, err := egress.ParseRules(byOperator, true)
	if err != nil {
		return err
	}
	more, err := egress.ParseRules(byTask, false)
	g.Gate.Allow(phase, append(rules, more...), false)
	return err
}

func (g fileGate) Close() error { return errors.Join(g.Gate.Close(), g.file.Close()) }

// The task declares, the job caps, the operator adds; the ledger tells, and a
// verifier has no network of the agent's.
func TestNetworkCap(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { rw.Write([]byte("word: done")) }))
	defer server.Close()
	at := server.Listener.Addr().String()
	ask := `#!/bin/bash
ask() { exec 3<>/dev/tcp/127.0.0.1/3128 || return; printf 'GET http://%s/ HTTP/1.0\r\n\r\n' "$1" >&3; cat <&3; }
`
	asks := ask + "ask " + at + ` 2>/dev/null | tail -n 1 | sed -n 's/word: //p' >answer; ask 169.254.169.254 >refused 2>/dev/null; true`
	x := w.task("x", files{
		"task.toml":     strings.Replace(taskTOML, "[environment]\n", "[environment]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"169.254.169.254\"]\n", 1),
		"tests/test.sh": ask + "ask " + at + " 2>/dev/null | grep -q 'word: done' && echo 0 >/logs/verifier/reward.txt && exit\n" + strings.TrimPrefix(testSh, "#!/bin/sh\n"),
	})
	bash := shell("asker", "bash -c '"+strings.ReplaceAll(asks, "'", `'\''`)+"'")
	for _, c := range []struct {
		name    string
		network sandbox.Network
		hosts   []string
		mode    task.VerifierMode
		want    string
	}{
		{"none", sandbox.NetNone, nil, task.VerifierSealed, "none 0.0"},
		{"task-only", sandbox.NetAllowlist, nil, task.VerifierSealed, "allowlist 0.0"},
		{"operator", sandbox.NetAllowlist, []string{at}, task.VerifierSealed, "allowlist 1.0"},
		{"live", sandbox.NetAllowlist, []string{at}, task.VerifierLive, "allowlist 1.0"},
	} {
		conf := w.config(c.name, []Arm{bash}, x)
		conf.Network, conf.AllowHosts, conf.Verifier = c.network, c.hosts, c.mode
		deps := w.deps()
		deps.Egress = func(r EgressRequest) (Gate, error) {
			f, err := os.Create(r.Ledger)
			return fileGate{egress.New(egress.Config{Ledger: egress.NewLedger(f, 0)}), f}, err
		}
		if _, err := Run(t.Context(), conf, deps); err != nil {
			t.Fatal(err)
		}
		tr := w.view(conf).Trials[0]
		if got := tr.Record.Modes.Network + " " + string(tr.Rewards["reward"]); got != c.want || tr.Record.Modes.VerifierNetwork != "none" {
			t.Errorf("%s: %s, want %s; verifier %s; %s", c.name, got, c.want, tr.Record.Modes.VerifierNetwork, tr.Record.Detail)
		}
		ledger := w.text(tr, "agent/egress.ndjson")
		if c.network == sandbox.NetNone && (ledger != "" || len(tr.Record.Notes) == 0) {
			t.Errorf("%s: %q, notes %q", c.name, ledger, tr.Record.Notes)
		}
		if c.network == sandbox.NetAllowlist && !strings.Contains(ledger, `"host":"169.254.169.254","port":80,"verdict":"refused"`) {
			t.Errorf("%s: a task named the metadata address for itself, or nobody wrote it down: %s", c.name, ledger)
		}
		if c.mode == task.VerifierLive && !strings.Contains(ledger, `"phase":"verifier"`) {
			t.Errorf("%s: the live verifier was not refused: %s", c.name, ledger)
		}
	}
}

// The full network is what a task gets that asks for the public one, or says
// nothing; another task gets no more of it than it asks for. What is refused
// stands in the ledger, and the result says what led out.
func TestFullNetwork(t *testing.T) {
	w := newWorld(t)
	if !slices.Contains(w.deps().Backend.Capabilities().Networks, sandbox.NetFull) {
		t.Skip("no full network here")
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { rw.Write([]byte("word: done")) }))
	defer server.Close()
	asks := `ask() { exec 3<>/dev/tcp/$1/80 || return; printf 'GET http://%s/ HTTP/1.0\r\n\r\n' "$1" >&3; cat <&3; }
{ ask 198.41.0.4 | tail -n 1 | sed -n 's/word: //p' >answer; ask 169.254.169.254; } 2>/dev/null; true`
	bash := shell("asker", "bash -c '"+strings.ReplaceAll(asks, "'", `'\''`)+"'")
	for _, c := range []struct {
		says string
		cap  sandbox.Network
		want string
	}{
		{"", sandbox.NetFull, "full interface 1.0"},
		{"allow_internet = true", sandbox.NetFull, "full interface 1.0"},
		{`network_mode = "public"`, sandbox.NetFull, "full interface 1.0"},
		{"allow_internet = false", sandbox.NetFull, "none  0.0"},
		{"network_mode = \"allowlist\"\nallowed_hosts = [\"198.41.0.4\"]", sandbox.NetFull, "allowlist proxy+interface 1.0"},
		{"network_mode = \"allowlist\"\nallowed_hosts = [\"169.254.169.254\"]", sandbox.NetFull, "allowlist proxy+interface 0.0"},
		{`network_mode = "public"`, sandbox.NetAllowlist, "none  0.0"},
		{`network_mode = "public"`, sandbox.NetNone, "none  0.0"},
	} {
		x := w.task("x", files{"task.toml": strings.Replace(taskTOML, "[environment]\n", "[environment]\n"+c.says+"\n", 1)})
		conf := w.config("full", []Arm{bash}, x)
		conf.Network = c.cap
		deps := w.deps()
		deps.Egress = func(r EgressRequest) (Gate, error) {
			f, err := os.Create(r.Ledger)
			return fileGate{egress.New(egress.Config{
				Ledger: egress.NewLedger(f, 0),
				Link:   netstack.Config{Inside: []netip.Addr{netip.MustParsePrefix(sandbox.LinkAddr4).Addr()}, MTU: sandbox.LinkMTU}.Link,
				Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
				},
			}), f}, err
		}
		if _, err := Run(t.Context(), conf, deps); err != nil {
			t.Fatal(err)
		}
		tr := w.view(conf).Trials[0]
		if got := tr.Record.Modes.Network + " " + tr.Record.Modes.Outlet + " " + string(tr.Rewards["reward"]); got != c.want || tr.Record.Modes.VerifierNetwork != "none" {
			t.Errorf("%q below %s: %s, want %s; verifier %s; %s", c.says, c.cap, got, c.want, tr.Record.Modes.VerifierNetwork, tr.Record.Detail)
		}
		if ledger := w.text(tr, "agent/egress.ndjson"); strings.HasPrefix(c.want, "none") != (ledger == "") ||
			ledger != "" && !strings.Contains(ledger, `"via":"tcp","host":"169.254.169.254","port":80,"verdict":"refused"`) {
			t.Errorf("%q below %s: %s", c.says, c.cap, ledger)
		}
		if err := os.RemoveAll(conf.Dir); err != nil {
			t.Fatal(err)
		}
	}
}

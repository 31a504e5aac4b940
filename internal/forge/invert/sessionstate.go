package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
)

// relink makes a link lead elsewhere.
func (g *Ground) relink(p, target string) func(*rand.Rand) (forge.Delta, error) {
	return func(*rand.Rand) (forge.Delta, error) { return g.Link(p, target), nil }
}

// program makes a path a program of that text.
func (g *Ground) program(p, text string) func(*rand.Rand) (forge.Delta, error) {
	return func(*rand.Rand) (forge.Delta, error) { return g.Program(p, []byte(text)), nil }
}

// foreignUsr reports an image whose /usr is another machine's, bound: nothing
// in it is seen or can be changed.
func (g *Ground) foreignUsr() bool { return len(g.List("/usr")) == 0 }

// portTaken has every login shell start a service, unless it runs, that holds a
// port which the project names.
func portTaken() Operator {
	o := Operator{Name: "session-port-taken", Number: 87, Ecosystem: Any, Family: Session, Realism: 5, Hint: "what else runs on the machine",
		Masked: "a project that takes another port when one is taken"}
	number := regexp.MustCompile(`(?i)(?:localhost:|127\.0\.0\.1:|\bport["']?\s*[=:]\s*["']?|listen\(\s*|PORT[=:]\s*)(\d{4,5})\b`)
	return chosen(o, func(g *Ground) []choice {
		if !g.isFile("/usr/bin/perl") && !g.foreignUsr() {
			return nil
		}
		var all []choice
		seen := map[string]bool{}
		for _, p := range g.Everything(".py", ".js", ".ts", ".go", ".rs", ".rb", ".java", ".sh", ".json", ".toml", ".yaml", ".yml", ".ini", ".env") {
			text, _ := g.Text(p)
			for _, m := range number.FindAllStringSubmatch(text, -1) {
				if seen[m[1]] || m[1] < "1024" || len(m[1]) == 5 && m[1] > "65535" || len(seen) >= 12 {
					continue
				}
				seen[m[1]] = true
				all = append(all, g.carried(Payload{Name: m[1], File: "metrics", Why: "node metrics",
					Lines: []string{"/opt/metrics/agent </dev/null >/dev/null 2>&1"},
					More:  func(g *Ground) forge.Delta { return g.Program("/opt/metrics/agent", []byte(listener(m[1]))) }})...)
			}
		}
		return all
	})
}

// listener is a program that returns once the port is held, by a child that
// stays. Only what perl-base brings is used.
func listener(port string) string {
	return fmt.Sprintf(`#!/usr/bin/perl
# Exposes node metrics. Started by every login shell; does nothing if it runs.
use strict;
use IO::Socket::INET;
use POSIX ();
my $server = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => %s, Listen => 16, ReuseAddr => 1) or exit 0;
exit 0 if fork;
POSIX::setsid();
while (1) {
    my $client = $server->accept or next;
    print $client "HTTP/1.0 503 Service Unavailable\r\n\r\n";
    close $client;
}
`, port)
}

// staleLock leaves the lock or pid file of a process that was killed.
func staleLock() Operator {
	o := Operator{Name: "session-lock-left", Number: 88, Ecosystem: Any, Family: Session, Realism: 5, Hint: "what a killed process left behind",
		Masked: "a lock that is held on a file and not by one"}
	where := regexp.MustCompile("[\"'\\s=(`]((?:/var/run|/run|/var/lock|/var/tmp|/var/lib|/srv|/opt)/[\\w./-]*\\.(?:lock|lck|pid))\\b")
	near := regexp.MustCompile("[\"'\\s=/(`}]((?:\\.?[\\w-]+/)?\\.?[\\w-]*\\.(?:lock|lck|pid))[\"'\\s;)`]")
	return chosen(o, func(g *Ground) []choice {
		var all []choice
		seen := map[string]bool{}
		for _, p := range g.Everything(".py", ".js", ".ts", ".go", ".rs", ".rb", ".java", ".sh", ".c", ".cc", ".cpp", ".h", ".pl", ".t", "Makefile") {
			text, _ := g.Text(p)
			var paths []string
			for _, m := range where.FindAllStringSubmatch(text, -1) {
				paths = append(paths, m[1])
			}
			for _, m := range near.FindAllStringSubmatch(text, -1) {
				if !slices.Contains([]string{"Cargo.lock", "yarn.lock", "poetry.lock", "Pipfile.lock", "Gemfile.lock", "composer.lock", "uv.lock", "flake.lock", ".lock", ".pid"}, path.Base(m[1])) {
					paths = append(paths, path.Join(g.Dir(), m[1]))
				}
			}
			for _, at := range paths {
				if !seen[at] && len(seen) < 40 && !strings.Contains(at, "..") {
					seen[at] = true
					all = append(all, g.added(at, path.Base(at), "24817\n")...)
				}
			}
		}
		return all
	})
}

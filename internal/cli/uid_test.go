package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// realMode is the uid mode with real owners that this machine gives this user;
// it skips where there is none.
func realMode(t testing.TB) sandbox.UIDMode {
	t.Helper()
	needSandbox(t)
	st, err := image.Open(image.HostPath(scratch(t)), image.Options{Owner: ns.Owner(), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	modes := b.Capabilities().UIDModes
	if len(modes) < 2 {
		t.Skip("one user id only: an ordinary user needs a range in /etc/subuid and /etc/subgid, and newuidmap")
	}
	return modes[1]
}

// What commands do where owners are real.
func TestUIDScripts(t *testing.T) {
	mode, store := realMode(t), scratch(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/uid",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ASSAY_STORE", store)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("MODE", string(mode))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "trials": trials},
	})
}

// Packages with users of their own leave the owners in an exported image that
// they have in a container of a real engine: of every path, with its mode.
func TestOwnersOfPackages(t *testing.T) {
	base := os.Getenv("ASSAY_BASE_TAR")
	if os.Getenv("ASSAY_LONG_OWNERS") == "" || base == "" || os.Getenv("DOCKER_HOST") == "" {
		t.Skip("needs ASSAY_LONG_OWNERS, a Debian root file system named by ASSAY_BASE_TAR, an engine at DOCKER_HOST and a mirror that answers")
	}
	mode, store, dir := string(realMode(t)), scratch(t), scratch(t)
	out := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "ASSAY_STORE="+store)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		b, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.Bytes())
		}
		return string(b)
	}
	assay := filepath.Join(dir, "assay")
	out("go", "build", "-o", assay, "../../cmd/assay")
	file := "FROM base:1\nRUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends " +
		"openssh-client cron postgresql-common && rm -rf /var/lib/apt/lists\n" +
		"RUN useradd -m app\nUSER app\nRUN test $(id -u) = 1000 && ! touch /etc/x 2>/dev/null && touch ~/mine\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	out(assay, "image", "import", base, "--name", "base:1")
	out(assay, "image", "build", "--inherit-mirrors", "--uid", mode, "-t", "assay-owners:1", dir)
	tar := filepath.Join(dir, "owned.tar")
	out(assay, "image", "export", "-o", tar, "assay-owners:1")
	out("docker", "load", "-q", "-i", tar)
	defer exec.Command("docker", "rmi", "-f", "assay-owners:1").Run() // it may be in use by nobody but us
	list := `find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o -printf '%p %U:%G %m %y\n' | grep -vE '^/(\.dockerenv|etc/(hosts|hostname|mtab|resolv.conf)|$) ' | sort`
	ours := out(assay, "sandbox", "shell", "--uid", mode, "--user", "0", "--image", "assay-owners:1", "--", "sh", "-c", list)
	theirs := out("docker", "run", "--rm", "--network", "none", "-u", "0", "assay-owners:1", "sh", "-c", list)
	a, b := strings.Split(ours, "\n"), strings.Split(theirs, "\n")
	have := map[string]bool{}
	for _, l := range b {
		have[l] = true
	}
	owned := 0
	for _, l := range a {
		if !have[l] {
			t.Errorf("not in the engine's: %s", l)
		}
		if l != "" && !strings.Contains(l, " 0:0 ") {
			owned++
		}
	}
	if len(a) != len(b) || owned < 25 {
		t.Errorf("%d paths, the engine has %d; %d with another owner than root", len(a), len(b), owned)
	}
	t.Logf("%d paths, %d of them with another owner than root", len(a), owned)
}

package ns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/doctor"
	"assay/internal/image"
)

// madeUp is a root directory with these files.
func madeUp(t *testing.T, files map[string]string) Config {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Config{Root: image.HostPath(root), Scratch: image.HostPath(t.TempDir())}
}

func refuses(t *testing.T, f doctor.Finding, detail, remedy string) {
	t.Helper()
	if f.OK || f.Means == "" || !strings.Contains(f.Detail, detail) || !strings.Contains(f.Remedy, remedy) {
		t.Errorf("%+v, want %q and the remedy %q", f, detail, remedy)
	}
}

func TestMachineApparmor(t *testing.T) {
	const file = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	on := madeUp(t, map[string]string{file: "1\n"})
	f := on.apparmor(false)
	refuses(t, f, "apparmor_restrict_unprivileged_userns is 1", "apparmor_parser -r")
	if !strings.Contains(f.Remedy, exe) {
		t.Errorf("the profile names another program: %s", f.Remedy)
	}
	for name, f := range map[string]doctor.Finding{
		"none":         madeUp(t, nil).apparmor(false),
		"off":          madeUp(t, map[string]string{file: "0\n"}).apparmor(false),
		"root":         on.apparmor(true),
		"with profile": madeUp(t, map[string]string{file: "1\n", "etc/apparmor.d/assay": Profile(exe)}).apparmor(false),
	} {
		if !f.OK || f.Detail == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestMachineSubordinateIDs(t *testing.T) {
	_, noHelpers := mapHelpers()
	none := madeUp(t, map[string]string{"etc/subuid": "somebody:100000:65536\n", "etc/subgid": ""}).subordinate(false)
	if noHelpers != nil {
		refuses(t, none, "is not installed", "package uidmap")
	} else {
		refuses(t, none, "0 ids in a row", "usermod --add-subuids")
	}
	if f := madeUp(t, nil).subordinate(true); !f.OK {
		t.Errorf("%+v", f)
	}
}

// Where no hierarchy can be written, it is said what holds limits then.
func TestMachineControlGroups(t *testing.T) {
	requireSandbox(t)
	all := probeBroken(t, "groups")
	refuses(t, all[0], "", "Delegate=yes")
	if !strings.Contains(all[0].Means, "memory") {
		t.Errorf("%+v", all[0])
	}
}

func TestMachineIdmappedMounts(t *testing.T) {
	c := madeUp(t, nil)
	if f := c.idmapped(false); !f.OK || !strings.Contains(f.Detail, "only root") {
		t.Errorf("%+v", f)
	}
	requireSandbox(t)
	all := probeBroken(t, "ramfs mapped") // of a namespace, root is not root
	refuses(t, all[0], "", "ext4")
	if !realRoot() {
		return
	}
	if f := c.idmapped(true); f.Detail == "" || !f.OK && f.Remedy == "" {
		t.Errorf("%+v", f)
	}
}

func TestMachine(t *testing.T) {
	var names []string
	for _, f := range Machine(Config{Scratch: image.HostPath(t.TempDir())}) {
		names = append(names, f.Name)
		if f.Detail == "" || !f.OK && (f.Means == "" || f.Remedy == "") {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(names, ", "); got != "apparmor restriction, control groups, subordinate ids, idmapped mounts, tun" {
		t.Error(got)
	}
}

package ns

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/doctor"
	"assay/internal/image"
)

// brokenMarker is argv[0] of this test binary as a machine that refuses
// something: argv[1] says what, argv[2] is a directory to work in.
const brokenMarker = "assay-ns-broken"

// broken spoils the namespaces it was started in, probes, and prints.
func broken(args []string) int {
	what, dir := args[1], args[2]
	c := Config{Scratch: image.HostPath(dir)}
	var err error
	switch what {
	case "userns":
		err = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	case "nested": // enough for the keeper, not for an init
		err = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("1"), 0)
	case "proc":
		err = unix.Mount("none", "/proc/acpi", "tmpfs", unix.MS_RDONLY, "")
		if err == unix.ENOENT {
			err = unix.Mount("none", "/proc/fs", "tmpfs", unix.MS_RDONLY, "")
		}
	case "overlay":
		for _, d := range []string{"l", "u", "w", "m"} {
			if err = os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				break
			}
		}
		if err == nil {
			err = unix.Mount("none", dir+"/m", "overlay", 0, fmt.Sprintf("userxattr,lowerdir=%[1]s/l,upperdir=%[1]s/u,workdir=%[1]s/w", dir))
		}
		c.Scratch = image.HostPath(dir + "/m")
	case "groups": // none of the hierarchies is where it was
		err = unix.Mount("none", "/sys/fs/cgroup", "tmpfs", 0, "")
	case "ramfs mapped":
		err = unix.Mount("none", dir, "ramfs", 0, "")
	case "ramfs": // has no extended attributes, like NFS before 4.2
		err = unix.Mount("none", dir, "ramfs", 0, "")
	case "seccomp":
		err = refuseClone()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		return 2
	}
	said := func() []doctor.Finding { return Probe(context.Background(), c) }
	switch what {
	case "groups":
		said = func() []doctor.Finding { return []doctor.Finding{groups()} }
	case "ramfs mapped":
		said = func() []doctor.Finding { return []doctor.Finding{c.idmapped(true)} }
	}
	if err := json.NewEncoder(os.Stdout).Encode(said()); err != nil {
		return 2
	}
	return 0
}

// refuseClone makes clone with a new user namespace fail with EPERM, as the
// default profile of a container engine does.
func refuseClone() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	clone := uint32(unix.SYS_CLONE)
	f := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},                   // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: clone},       //
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},                  // the first argument
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: 0x10000000}, // CLONE_NEWUSER
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EPERM)},   // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                        // SECCOMP_RET_ALLOW
	}
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, 1, 1, uintptr(pointer(&p))) // all threads
	if e != 0 {
		return e
	}
	return nil
}

// probeBroken runs this binary as such a machine.
func probeBroken(t *testing.T, what string) []doctor.Finding {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{brokenMarker, what, dir}
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if what == "seccomp" {
		cmd.SysProcAttr = nil
	} else {
		cmd.SysProcAttr.Cloneflags &^= unix.CLONE_NEWPID // its /proc is this one
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var f []doctor.Finding
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return f
}

func TestProbeWhereAllIsWell(t *testing.T) {
	requireSandbox(t)
	dir := t.TempDir()
	got := Probe(t.Context(), Config{Scratch: image.HostPath(dir)})
	if len(got) != 7 {
		t.Errorf("%d findings, want 7: %+v", len(got), got)
	}
	for _, f := range got {
		if !f.OK || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the probe left %v behind", left)
	}
}

func TestRefusalsNameCauseAndRemedy(t *testing.T) {
	requireSandbox(t)
	for _, c := range []struct{ what, name, detail, remedy string }{
		{"userns", "user namespaces", "max_user_namespaces is 0", "sysctl -w user.max_user_namespaces"},
		{"nested", "nested namespaces", "no space left", "max_user_namespaces"},
		{"proc", "fresh proc mount", "not permitted", "systempaths=unconfined"},
		{"ramfs", "store file system", "not supported", "ext4"},
		{"seccomp", "user namespaces", "seccomp filter is in force", "seccomp=unconfined"},
	} {
		t.Run(c.what, func(t *testing.T) {
			all := probeBroken(t, c.what)
			f := all[len(all)-1]
			if f.OK || f.Name != c.name || !strings.Contains(f.Detail, c.detail) || !strings.Contains(f.Remedy, c.remedy) || f.Means == "" {
				t.Errorf("got %+v", all)
			}
			for _, g := range all[:len(all)-1] {
				if !g.OK {
					t.Errorf("a second refusal: %+v", g)
				}
			}
		})
	}
}

// The disk of a container cannot hold upper directories; memory still can.
func TestScratchOnOverlayIsSaidNotRefused(t *testing.T) {
	requireSandbox(t)
	all := probeBroken(t, "overlay")
	f := all[len(all)-1]
	if f.Name != "scratch file system" || !f.OK || !strings.Contains(f.Detail, "overlayfs") || !strings.Contains(f.Means, "in memory only") || f.Remedy == "" {
		t.Errorf("got %+v", all)
	}
}

func TestAppArmorIsNamedWithItsProfile(t *testing.T) {
	root := t.TempDir()
	p := filepath.Join(root, "proc/sys/kernel")
	if err := os.MkdirAll(p, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p+"/apparmor_restrict_unprivileged_userns", []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Root: image.HostPath(root)}
	for _, s := range []step{stepMount, stepUserNS} {
		got := c.explain(stepError(s, unix.EACCES))
		r, ok := got.(*doctor.Refusal)
		if !ok {
			t.Fatalf("%v", got)
		}
		for _, want := range []string{exe, "flags=(unconfined)", "userns,", "apparmor_parser -r"} {
			if !strings.Contains(r.Finding.Remedy, want) {
				t.Errorf("%s: remedy lacks %q: %s", s, want, r.Finding.Remedy)
			}
		}
		if !strings.Contains(r.Finding.Means, "AppArmor") {
			t.Errorf("%s: %s", s, r.Finding.Means)
		}
	}
	if err := os.WriteFile(p+"/apparmor_restrict_unprivileged_userns", []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(c.explain(stepError(stepMount, unix.EACCES)).Error(), "apparmor_parser") {
		t.Error("AppArmor is blamed although it is off")
	}
}

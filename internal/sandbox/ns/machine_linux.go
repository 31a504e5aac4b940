package ns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/cgroup"
)

// Machine says what else of this machine sandboxes depend on, besides what
// [Probe] tries: what they have less of where it is missing. Nothing stays.
func Machine(c Config) []doctor.Finding {
	return []doctor.Finding{c.apparmor(realRoot()), groups(), c.subordinate(realRoot()), c.idmapped(realRoot()), ProbeTun(c)}
}

// apparmor looks for the rule that takes a user namespace's rights away.
func (c Config) apparmor(root bool) doctor.Finding {
	const name = "kernel/apparmor_restrict_unprivileged_userns"
	f := doctor.Finding{Name: "apparmor restriction", OK: true}
	v := c.setting(name)
	switch {
	case v == "":
		f.Detail = "this kernel has none"
		return f
	case v != "1":
		f.Detail = strings.ReplaceAll(name, "/", ".") + " is " + v
		return f
	case root:
		f.Detail = "in force for ordinary users; not for root"
		return f
	}
	exe, err := os.Executable()
	if err != nil {
		exe = "/path/to/assay"
	}
	for _, p := range []string{"etc/apparmor.d/assay"} {
		b, err := os.ReadFile(filepath.Join("/", string(c.Root), p))
		if err == nil && strings.Contains(string(b), exe) && strings.Contains(string(b), "userns") {
			f.Detail = "in force; /" + p + " lets this program be"
			return f
		}
	}
	f.OK = false
	c.explainMount(&f)
	f.Detail = strings.TrimSpace(f.Detail)
	return f
}

// groups tries to make control groups.
func groups() doctor.Finding {
	f := doctor.Finding{Name: "control groups"}
	tree, err := cgroup.Open(cgroup.Options{})
	defer tree.Close()
	var held, lacking []string
	for _, c := range []string{cgroup.Memory, cgroup.Pids, cgroup.CPU} {
		if by := tree.By(c); by != "" {
			held = append(held, c+" by "+by)
		} else {
			lacking = append(lacking, c)
		}
	}
	f.Detail = strings.Join(held, ", ")
	if len(lacking) == 0 {
		f.OK = true
		return f
	}
	if err != nil {
		f.Detail = strings.ReplaceAll(strings.TrimPrefix(err.Error(), "control groups: "), "\n", "; ")
	}
	f.Means = "no group can be made for " + strings.Join(lacking, ", ") +
		": memory is watched and ended a little late, processes are counted by the kernel per user namespace, shares of processors are not held; each result says which limits were"
	f.Remedy = "systemd: systemd-run --user --scope -p Delegate=yes assay …; Docker: --cgroupns private and a writable /sys/fs/cgroup; " +
		"version 1: as root, mkdir and chown a group of yours in each hierarchy and start assay in it"
	return f
}

// subordinate says which users there can be inside.
func (c Config) subordinate(root bool) doctor.Finding {
	f := doctor.Finding{Name: "subordinate ids", OK: true}
	if root {
		f.Detail = "root gives its sandboxes ids that nobody else has"
		return f
	}
	got, err := (&Backend{conf: c}).wantedIDs()
	if err == nil {
		f.Detail = fmt.Sprintf("%d users and groups, through %s", got.count(), got.helpers[0])
		return f
	}
	name := "USER"
	if me, uerr := user.Current(); uerr == nil {
		name = me.Username
	}
	f.OK, f.Detail = false, err.Error()
	f.Means = "uid mode " + string(sandbox.UIDSingle) + ": one user inside, and changes of owner and user only seem to happen; results say so"
	f.Remedy = fmt.Sprintf("usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s (as root; a range that nobody else has)", name)
	if got.helpers[0] == "" || got.helpers[1] == "" {
		f.Remedy = "install the package uidmap (shadow-utils), then " + f.Remedy
	}
	return f
}

// idmapped tries a mount of the scratch's file system with other owners.
func (c Config) idmapped(root bool) doctor.Finding {
	f := doctor.Finding{Name: "idmapped mounts", OK: true}
	if !root {
		f.Detail = "only root can make them; sandboxes do without"
		return f
	}
	dir, remove, err := probeDir(c)
	if err != nil {
		f.OK, f.Detail, f.Means, f.Remedy = false, err.Error(), "layers cannot be stored", "choose a directory that you can write to"
		return f
	}
	defer remove()
	if err := tryIdmap(image.HostPath(dir)); err != nil {
		f.OK, f.Detail = false, fmt.Sprintf("%s: %v", fileSystem(dir), err)
		f.Means = "nothing is lost: layers that have owners are copied once for each start of assay, as they are without root"
		f.Remedy = "Linux 5.12 or later and a store on ext4, XFS, btrfs (5.15) or tmpfs (6.3)"
		return f
	}
	f.Detail = fileSystem(dir) + " can"
	return f
}

// tryIdmap makes such a mount and drops it again.
func tryIdmap(dir image.HostPath) error {
	cat, err := exec.LookPath("cat")
	if err != nil {
		return err
	}
	cmd := exec.Command(cat) // lends its user namespace, as long as its input is open
	one := oneID(DefaultRootUID, DefaultRootUID)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one.users, GidMappings: one.groups}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	m, err := unix.OpenTree(unix.AT_FDCWD, string(dir), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone a mount: %w", err)
	}
	defer unix.Close(m)
	err = unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
	if errors.Is(err, unix.ENOSYS) {
		return errors.New("this kernel does not know of them")
	}
	return err
}

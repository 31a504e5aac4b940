package ns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/doctor"
	"assay/internal/image"
)

// Probe tries what Open does and says how far it comes: one finding for each
// thing that a machine can refuse, as far as they could be asked. Store may be
// nil; the file system under Scratch is then tried for layers, too. Nothing
// stays behind.
func Probe(ctx context.Context, c Config) []doctor.Finding {
	dir, remove, err := probeDir(c)
	if err != nil {
		return []doctor.Finding{{Name: string(stepStore), Detail: err.Error(), Means: "layers cannot be stored",
			Remedy: "choose a directory that you can write to"}}
	}
	defer remove()
	if c.Store == nil {
		var o image.Options
		if owner := Owner(); owner != nil {
			o.Owner = owner
		}
		if c.Store, err = image.Open(image.HostPath(filepath.Join(dir, "store")), o); err != nil {
			return []doctor.Finding{c.storeFinding(err)}
		}
	}
	c.Scratch = image.HostPath(filepath.Join(dir, "scratch"))
	b, err := Open(ctx, c)
	if err == nil {
		err = b.Close()
	}
	return c.findings(b, err)
}

// findings lists what was reached: all of it, or the steps before a refusal.
func (c Config) findings(b *Backend, err error) []doctor.Finding {
	var out []doctor.Finding
	var r *doctor.Refusal
	if err != nil && !errors.As(err, &r) {
		return []doctor.Finding{{Name: "sandbox", Detail: err.Error(), Means: "no sandbox can be made", Remedy: "see the error"}}
	}
	ok := map[step]string{
		stepUserNS: "this process may make them", stepMount: "allowed", stepInit: "allowed", stepProc: "allowed",
		stepOverlay: "works, trees are held in memory", stepStore: "fit for layers", stepScratch: "fit for trees on disk",
	}
	for _, s := range []step{stepUserNS, stepMount, stepInit, stepProc, stepStore, stepOverlay, stepScratch} {
		f := doctor.Finding{Name: string(s), OK: true, Detail: ok[s]}
		if r != nil && r.Finding.Name == f.Name {
			return append(out, r.Finding)
		}
		if b != nil {
			for _, n := range b.notes {
				if n.Name == f.Name {
					f = n
					f.OK = true // something else stands in
				}
			}
		}
		out = append(out, f)
	}
	if r != nil {
		return append(out[:0], r.Finding)
	}
	return out
}

// probeDir makes a directory on the file system that Scratch is or will be on.
func probeDir(c Config) (dir string, remove func(), err error) {
	at := string(c.Scratch)
	if at == "" && c.Store != nil {
		at = string(c.Store.Root())
	}
	if at == "" {
		at = os.TempDir()
	}
	for {
		_, err := os.Stat(at)
		if err == nil {
			break
		}
		if up := filepath.Dir(at); !errors.Is(err, fs.ErrNotExist) || up == at {
			return "", nil, err
		} else {
			at = up
		}
	}
	dir, err = os.MkdirTemp(at, ".probe-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// Owner is the user to whom the layers of a store must belong, for
// image.Options: nil unless this process is the machine's root.
func Owner() *image.Owner {
	if !realRoot() {
		return nil
	}
	return &image.Owner{UID: DefaultRootUID, GID: DefaultRootUID}
}

// realRoot reports whether this process is root outside of any user
// namespace. Root inside of one is somebody else outside, and is treated as
// the ordinary user that it is.
func realRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || slices.Equal(strings.Fields(string(b)), []string{"0", "0", "4294967295"})
}

// setting reads one of the kernel's, from below Config.Root.
func (c Config) setting(name string) string {
	b, err := os.ReadFile(filepath.Join("/", string(c.Root), "proc/sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// explain turns an error of the set-up into what it means and what to do.
func (c Config) explain(err error) error {
	s := stepOf(err)
	if s == "" {
		return err
	}
	var e syscall.Errno
	errors.As(err, &e)
	detail := strings.TrimPrefix(err.Error(), string(s)+": ")
	f := doctor.Finding{Name: string(s), Detail: detail, Means: "no sandbox can be made"}
	switch s {
	case stepUserNS, stepInit:
		c.explainNamespace(&f, e)
	case stepMount:
		c.explainMount(&f)
	case stepProc:
		f.Means = "a sandbox cannot get a /proc of its own: parts of the one here are hidden, as in a container"
		f.Remedy = "Docker: --security-opt systempaths=unconfined; Kubernetes: securityContext.procMount: Unmasked with hostUsers: false"
	case stepOverlay:
		f.Remedy = "Linux 5.11 or later with the overlay module: modprobe overlay (as root)"
	case stepStore:
		return &doctor.Refusal{Finding: c.storeFinding(err)}
	case stepScratch:
		f = c.scratchFinding(err)
	}
	return &doctor.Refusal{Finding: f}
}

func (c Config) explainNamespace(f *doctor.Finding, e syscall.Errno) {
	switch {
	case c.setting("user/max_user_namespaces") == "0":
		f.Detail += " (user.max_user_namespaces is 0)"
		f.Remedy = "sysctl -w user.max_user_namespaces=15000 (as root)"
	case c.setting("kernel/unprivileged_userns_clone") == "0" && os.Geteuid() != 0:
		f.Detail += " (kernel.unprivileged_userns_clone is 0)"
		f.Remedy = "sysctl -w kernel.unprivileged_userns_clone=1 (as root)"
	case e == unix.ENOSPC:
		f.Detail += " (the limit of namespaces is used up, here or around this container)"
		f.Remedy = "sysctl -w user.max_user_namespaces=15000 and max_net_namespaces alike (as root, on the machine)"
	case filtered():
		f.Detail += " (a seccomp filter is in force, as in a container)"
		f.Remedy = "Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined; " +
			"Kubernetes: securityContext.seccompProfile.type: Unconfined, procMount: Unmasked, with hostUsers: false"
	case c.setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		c.explainMount(f)
	default:
		f.Remedy = "allow user namespaces for this user: see user_namespaces(7)"
	}
}

// filtered reports whether a seccomp filter applies to this process.
func filtered() bool {
	b, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(b), "\nSeccomp:\t2\n")
}

// explainMount is for what a security module takes away after the namespace
// was made.
func (c Config) explainMount(f *doctor.Finding) {
	if c.setting("kernel/apparmor_restrict_unprivileged_userns") != "1" {
		f.Remedy = "a security module or container forbids mounts in user namespaces: allow them for this program; " +
			"in Docker: --security-opt apparmor=unconfined --security-opt seccomp=unconfined"
		return
	}
	exe, err := os.Executable()
	if err != nil {
		exe = "/path/to/assay"
	}
	f.Detail += " (kernel.apparmor_restrict_unprivileged_userns is 1)"
	f.Means = "AppArmor takes the rights away that a user namespace gives, from every program without a profile"
	f.Remedy = "as root, write this to /etc/apparmor.d/assay and run: apparmor_parser -r /etc/apparmor.d/assay\n" + Profile(exe)
}

// Profile is the AppArmor profile that lets one program make user namespaces.
func Profile(exe string) string {
	return "abi <abi/4.0>,\ninclude <tunables/global>\n" +
		"profile assay " + strconv.Quote(exe) + " flags=(unconfined) {\n  userns,\n}\n"
}

func (c Config) storeFinding(err error) doctor.Finding {
	dir := "."
	if c.Store != nil {
		dir = string(c.Store.Root())
	} else if c.Scratch != "" {
		dir = string(c.Scratch)
	}
	f := doctor.Finding{Name: string(stepStore), Detail: fmt.Sprintf("%s is on %s: %s", dir, fileSystem(dir), strings.TrimPrefix(err.Error(), string(stepStore)+": ")),
		Means: "layers on it cannot be part of an overlay"}
	f.Remedy = localDisk
	if errors.Is(err, unix.EACCES) {
		f.Means = fmt.Sprintf("user %d, whom sandboxes run as, cannot reach it", c.RootUID)
		f.Remedy = "run assay as an ordinary user, or move the store below directories that everybody may enter"
	}
	return f
}

const localDisk = "put it on a local ext4, XFS, btrfs or tmpfs, in a container on a volume of its own (docker run -v assay:/path)"

func (c Config) scratchFinding(err error) doctor.Finding {
	return doctor.Finding{Name: string(stepScratch),
		Detail: fmt.Sprintf("%s is on %s: %s", c.Scratch, fileSystem(string(c.Scratch)), strings.TrimPrefix(err.Error(), string(stepScratch)+": ")),
		Means:  fmt.Sprintf("trees are held in memory only; a sandbox that may write more than %d MiB is refused", c.TmpfsMax>>20),
		Remedy: localDisk}
}

// fileSystem names the type of the one that a path is on.
func fileSystem(p string) string {
	var st unix.Statfs_t
	if unix.Statfs(p, &st) != nil {
		return "a file system that does not answer"
	}
	switch int64(st.Type) {
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs (the disk of a container)"
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "XFS"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	}
	return fmt.Sprintf("a file system of type %#x", st.Type)
}

package ns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
)

// The keeper's user namespace decides which uid modes there are: with one id,
// [sandbox.UIDSingle]; with 65,536, also the one whose owners are real. Its 0
// is who layers belong to; the others are ids that nobody else has.
const (
	idCount = 65536
	// farIDs are those of real root's sandboxes but the first: above what
	// distributions, systemd and directory services give away.
	farIDs = 2013265920 // 0x78000000
	// nobodyID stands for owners that the mapping has no id for.
	nobodyID = 65534
)

// ids are the keeper's user and group ids, in the form the kernel takes.
type ids struct {
	users, groups []syscall.SysProcIDMap
	mode          sandbox.UIDMode // besides single; "" if there is none
	helpers       [2]string       // newuidmap and newgidmap, for who may not write the maps
}

func (i ids) count() (n int) {
	for _, m := range i.users {
		n += m.Size
	}
	return n
}

// oneID maps nothing but the keeper's own user.
func oneID(uid, gid int) ids {
	return ids{users: []syscall.SysProcIDMap{{HostID: uid, Size: 1}}, groups: []syscall.SysProcIDMap{{HostID: gid, Size: 1}}}
}

// wantedIDs are all that this process can have for its sandboxes. Why there is
// but one is an error beside it.
func (b *Backend) wantedIDs() (ids, error) {
	if b.root {
		i := oneID(b.conf.RootUID, b.conf.RootUID)
		far := syscall.SysProcIDMap{ContainerID: 1, HostID: farIDs + 1, Size: idCount - 1}
		i.users, i.groups, i.mode = append(i.users, far), append(i.groups, far), sandbox.UIDRoot
		return i, nil
	}
	i := oneID(os.Geteuid(), os.Getegid())
	var err error
	if i.helpers, err = mapHelpers(); err != nil {
		return i, err
	}
	me, err := user.Current()
	if err != nil {
		return i, err
	}
	for _, f := range []struct {
		file string
		to   *[]syscall.SysProcIDMap
	}{{"etc/subuid", &i.users}, {"etc/subgid", &i.groups}} {
		text, err := os.ReadFile(filepath.Join("/", string(b.conf.Root), f.file))
		if err != nil {
			return i, err
		}
		first, n := subRange(string(text), me.Username, me.Uid)
		if n < idCount-1 {
			return i, fmt.Errorf("/%s gives user %s %d ids in a row, %d are needed", f.file, me.Username, n, idCount-1)
		}
		*f.to = append(*f.to, syscall.SysProcIDMap{ContainerID: 1, HostID: first, Size: idCount - 1})
	}
	i.mode = sandbox.UIDSub
	return i, nil
}

// subRange is the longest range of subordinate ids that a file gives a user.
func subRange(text, name, uid string) (first, n int) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || (f[0] != name && f[0] != uid) {
			continue
		}
		at, err := strconv.ParseUint(f[1], 10, 32)
		size, err2 := strconv.ParseUint(f[2], 10, 32)
		if err == nil && err2 == nil && at > 0 && at+size < 1<<32 && int(size) > n {
			first, n = int(at), int(size)
		}
	}
	return first, n
}

// mapHelpers finds the programs that write maps for ordinary users. They are
// set-uid: no other place than the system's is looked at.
func mapHelpers() (out [2]string, err error) {
	for i, name := range []string{"newuidmap", "newgidmap"} {
		for _, dir := range []string{"/usr/bin/", "/bin/", "/usr/local/bin/", "/run/wrappers/bin/"} {
			if fi, err := os.Stat(dir + name); err == nil && fi.Mode().IsRegular() {
				out[i] = dir + name
				break
			}
		}
		if out[i] == "" {
			return out, fmt.Errorf("%s is not installed (package uidmap or shadow-utils)", name)
		}
	}
	return out, nil
}

// keeperWaits marks a keeper that somebody else gives its ids: it waits for
// them and then executes itself again, since a program without a user has lost
// its rights.
const (
	keeperWaits = "assay-ns-keeper-waits"
	keeperReady = 5 // the descriptor that it waits on
)

// keeperEnv is a keeper's whole environment. A program built with the race
// detector would sleep for a second at its end. Little of its memory is alive:
// collecting it less often costs some 12 MB, once.
func keeperEnv() []string {
	return []string{"GOMAXPROCS=4", "GOGC=400", "GORACE=atexit_sleep_ms=0"}
}

// await is that keeper's first life.
func await(args []string) int {
	ready := os.NewFile(keeperReady, "ready")
	var b [1]byte
	if n, _ := ready.Read(b[:]); n != 1 {
		return 1 // whoever started it says why
	}
	ready.Close()
	err := syscall.Exec("/proc/self/exe", append([]string{keeperMarker}, args...), keeperEnv())
	fmt.Fprintln(os.Stderr, "keeper:", err)
	return 1
}

// startMapped starts a keeper that helpers give its ids.
func startMapped(cmd *exec.Cmd, i ids) error {
	ready, theirs, err := pipe(false)
	if err != nil {
		return err
	}
	defer ready.Close()
	give := os.NewFile(uintptr(theirs), "ready")
	cmd.Args[0] = keeperWaits
	cmd.ExtraFiles = append(cmd.ExtraFiles, give)
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = nil, nil
	err = cmd.Start()
	give.Close()
	if err != nil {
		return err
	}
	for n, m := range [][]syscall.SysProcIDMap{i.users, i.groups} {
		args := []string{strconv.Itoa(cmd.Process.Pid)}
		for _, r := range m {
			args = append(args, strconv.Itoa(r.ContainerID), strconv.Itoa(r.HostID), strconv.Itoa(r.Size))
		}
		if out, err := exec.Command(i.helpers[n], args...).CombinedOutput(); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return fmt.Errorf("%s: %w: %s", i.helpers[n], err, bytes.TrimSpace(out))
		}
	}
	_, err = ready.Write([]byte{1})
	return err
}

// modes are the uid modes of this backend, the usual one first.
func (b *Backend) modes() []sandbox.UIDMode {
	if b.ids.mode == "" {
		return []sandbox.UIDMode{sandbox.UIDSingle}
	}
	return []sandbox.UIDMode{sandbox.UIDSingle, b.ids.mode}
}

// realOwners decides a spec's mode, or says why it cannot be had.
func (b *Backend) realOwners(mode sandbox.UIDMode) (bool, error) {
	switch mode {
	case sandbox.UIDAuto, sandbox.UIDSingle:
		return false, nil
	case b.ids.mode:
		return true, nil
	}
	why := ""
	switch {
	case mode == sandbox.UIDRoot && !b.root:
		why = ": it is for assay run as root"
	case mode == sandbox.UIDSub && b.root:
		why = ": it is for ordinary users; root has mode root"
	case b.noIDs != nil:
		why = ": " + b.noIDs.Error()
	}
	return false, fmt.Errorf("uid mode %q%s: %w", mode, why, sandbox.ErrUnsupported)
}

// inside is how an owner of an image appears where ids are mapped.
func inside(id, count int) int {
	if id >= 0 && id < count {
		return id
	}
	return nobodyID
}

// chown gives what is open, or a name in a directory that is, an owner. Who is
// root already stays: it is by far the commonest.
func chown(dir int, name string, uid, gid uint32) error {
	if uid == 0 && gid == 0 {
		return nil
	}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := unix.Fchownat(dir, name, int(uid), int(gid), flags)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("owner %d:%d is beyond the ids of this uid mode: %w", uid, gid, err)
	}
	return err
}

package ns

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// Main runs the keeper if args are a keeper's; handled is false for every
// other command line. A program that calls Open calls it before anything else.
func Main(args []string) (exit int, handled bool) {
	switch {
	case len(args) > 0 && args[0] == keeperMarker:
		return keep(), true
	case len(args) > 0 && args[0] == keeperWaits:
		return await(args[1:]), true
	}
	return 0, false
}

// Descriptors that a keeper is born with.
const (
	keeperSocket = 3
	keeperExe    = 4
)

// keeper owns every volume, mount and init of one backend.
type keeper struct {
	sock      packets
	host      int    // the machine's root directory
	scratch   string // what of the scratch directory is ours
	conf      request
	spawner   *spawner
	oldMounts bool       // no lowerdir+; known when the first tree has been tried
	place     sync.Mutex // of old mounts

	mu     sync.Mutex
	next   int
	boxes  map[string]*box
	snaps  map[sandbox.Snapshot]*stack
	layers map[image.HostPath]string // opened layers, as paths for overlay
	covers map[string]*volume        // companions of layers by their ids: see hidden
	skels  map[string]string
	trash  sync.WaitGroup // what is made and removed in the background

	grounds       []*ground // latest last; guarded by mu, as are the next two
	spareInMemory spareVolume
	spareOnDisk   spareVolume
}

// keep serves until the backend is gone.
func keep() int {
	unix.CloseOnExec(keeperSocket)
	unix.CloseOnExec(keeperExe)
	sock, err := newPackets(keeperSocket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return 1
	}
	k := &keeper{sock: sock, boxes: map[string]*box{}, snaps: map[sandbox.Snapshot]*stack{},
		layers: map[image.HostPath]string{}, covers: map[string]*volume{}, skels: map[string]string{}}
	r := pid1.Receiver{P: sock}
	m, fds, err := r.Recv()
	if err != nil {
		return 1
	}
	answer := reply{}
	err = unpack(m, kindRequest, &k.conf)
	if err == nil {
		k.oldMounts = k.conf.OldMounts
		answer.Notes, err = k.setUp(fds)
	}
	pid1.CloseAll(fds)
	if err != nil {
		answer = replyError(err)
	}
	if serr := send(sock, kindReply, m.ID, answer); err != nil || serr != nil {
		if k.spawner != nil {
			k.spawner.close()
		}
		return 1
	}
	k.serve(&r)
	k.tearDown()
	return 0
}

// serve answers each request in a goroutine of its own.
func (k *keeper) serve(r *pid1.Receiver) {
	var wg sync.WaitGroup
	for {
		m, fds, err := r.Recv()
		if err != nil {
			break
		}
		var q request
		if err := unpack(m, kindRequest, &q); err != nil {
			pid1.CloseAll(fds)
			_ = send(k.sock, kindReply, m.ID, replyError(err))
			continue
		}
		wg.Go(func() {
			a, out := k.safely(q, fds)
			_ = send(k.sock, kindReply, m.ID, a, out...) // the backend is gone: so are we, soon
			pid1.CloseAll(out)
		})
	}
	k.killBoxes()
	wg.Wait()
	k.awaitDead()
}

// safely keeps a defect met in one sandbox's tree from ending all of them.
func (k *keeper) safely(q request, fds []int) (a reply, out []int) {
	defer func() {
		if p := recover(); p != nil {
			a = replyError(fmt.Errorf("%s: internal error: %v", q.Op, p))
		}
	}()
	if q.Op == opSteps {
		pid1.CloseAll(fds)
		steps, err := k.steps(int(q.Max))
		if err != nil {
			return replyError(err), nil
		}
		return reply{Steps: steps}, nil
	}
	out, pid, err := k.answer(q, fds)
	if err != nil {
		pid1.CloseAll(out)
		return replyError(err), nil
	}
	return reply{Pid: pid}, out
}

// answer does what is asked. It owns fds; the returned ones are sent.
func (k *keeper) answer(q request, fds []int) (out []int, pid int, err error) {
	if q.Op == opPut || q.Op == opGet || q.Op == opDiff || q.Op == opOwners {
		if len(fds) != 1 {
			pid1.CloseAll(fds)
			return nil, 0, fmt.Errorf("%s without a pipe", q.Op)
		}
		if err := unix.SetNonblock(fds[0], true); err != nil { // for deadlines
			pid1.CloseAll(fds)
			return nil, 0, err
		}
		pipe := os.NewFile(uintptr(fds[0]), "pipe")
		defer pipe.Close()
		switch q.Op {
		case opPut:
			err = k.put(q, pipe)
		case opGet:
			err = k.get(q, pipe)
		case opOwners:
			err = k.cover(q, pipe)
		default:
			err = k.diff(q, pipe)
		}
		return nil, 0, err
	}
	defer pid1.CloseAll(fds)
	switch q.Op {
	case opLayers:
		err = k.takeLayers(q, fds)
	case opCreate:
		return k.create(q, fds)
	case opRestack:
		return k.change(q, fds, k.restack)
	case opFreeze:
		return k.change(q, fds, k.freeze)
	case opEnd:
		err = k.end(q)
	case opPeek:
		err = k.peek(q)
	case opUncover:
		err = k.uncover(q)
	case opDrop:
		err = k.drop(q.Snapshot)
	case opDestroy:
		err = k.destroy(q.Sandbox)
	default:
		err = fmt.Errorf("unknown request %q", q.Op)
	}
	return out, 0, err
}

// setUp makes the keeper's own root: a tmpfs with the machine below /host,
// volumes below /v and what an init's first root is made of. Notes are errors
// that leave something working.
func (k *keeper) setUp(fds []int) (notes []reply, err error) {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return nil, err
	}
	unix.Umask(0)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, stepError(stepMount, err)
	}
	if err := pivotTo("/tmp", "host", "v", "o", "l", "layers", "skel", "scratch"); err != nil {
		return nil, err
	}
	if k.host, err = unix.Open("/host", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	program := keeperExe
	if !k.without(sandbox.DefProgram) {
		program = k.readOnlyProgram(keeperExe)
	}
	if k.spawner, err = newSpawner(program, k.conf.Warm, k.conf.IDs, k.conf.Without); err != nil {
		return nil, err
	}
	inMemory := k.tryVolume(false)
	if err := k.tryStore(&fds); err != nil {
		return nil, stepError(stepStore, err)
	}
	onDisk := k.openScratch(fds)
	if onDisk == nil && k.scratch != "" {
		onDisk = k.tryVolume(true)
	}
	if onDisk != nil {
		notes = append(notes, replyError(stepError(stepScratch, onDisk)))
	}
	if k.conf.Trash != "" {
		k.trash.Go(k.emptyTrash)
	}
	switch {
	case k.conf.Disk && onDisk != nil:
		return nil, stepError(stepScratch, onDisk)
	case inMemory != nil && (onDisk != nil || k.scratch == ""):
		return nil, stepError(stepOverlay, inMemory)
	case inMemory != nil: // Linux before 6.6: a tmpfs has no attributes for overlays
		notes = append(notes, replyError(stepError(stepOverlay, inMemory)))
	}
	return notes, nil
}

// pivotTo makes a tmpfs with these directories the root, the old one "host".
func pivotTo(over string, dirs ...string) error {
	if fi, err := os.Stat(over); err != nil || !fi.IsDir() {
		over = "/proc"
	}
	root, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, mountOption{"mode", "755"}, mountOption{"size", "64m"})
	if err != nil {
		return stepError(stepMount, err)
	}
	defer unix.Close(root)
	for _, d := range dirs {
		if err := unix.Mkdirat(root, d, 0o755); err != nil {
			return err
		}
	}
	if err := attach(root, over); err != nil {
		return stepError(stepMount, err)
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "host"); err != nil {
		return stepError(stepMount, err)
	}
	return unix.Chdir("/")
}

// tryVolume mounts an overlay on a volume and does what sandboxes need of it.
func (k *keeper) tryVolume(disk bool) error {
	v, err := k.newVolume(1<<20, 64, disk)
	if err != nil {
		return err
	}
	defer k.release(v)
	lower := v.path + "/l"
	if err := os.MkdirAll(lower+"/dir", 0o755); err != nil {
		return err
	}
	m, err := k.overlay([]string{lower}, v.upper(), v.work())
	if err != nil {
		return err
	}
	defer unix.Close(m)
	if err := unix.Unlinkat(m, "dir", unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("whiteout: %w", err)
	}
	if err := unix.Mkdirat(m, "dir", 0o755); err != nil {
		return fmt.Errorf("opaque directory: %w", err)
	}
	var b [4]byte
	if _, err := unix.Getxattr(v.upper()+"/dir", "user.overlay.opaque", b[:]); err != nil {
		return fmt.Errorf("attribute user.overlay.opaque: %w", err)
	}
	return nil
}

// tryStore mounts an overlay upon a directory of the store, and takes its
// descriptor.
func (k *keeper) tryStore(fds *[]int) error {
	if k.conf.Store == "" {
		return nil
	}
	given := -1
	if k.conf.Root {
		if len(*fds) == 0 {
			return errors.New("no mount came with it")
		}
		given = (*fds)[0]
		*fds = (*fds)[1:]
	}
	p, err := k.openLayer(k.conf.Store, given)
	if err != nil {
		return err
	}
	// Without an upper directory an overlay wants two lower ones.
	m, err := k.overlay([]string{p, "/skel"}, "", "")
	if err == nil {
		unix.Close(m)
	}
	return err
}

// tearDown leaves nothing on disk; the kernel does the rest.
func (k *keeper) tearDown() {
	k.spawner.close()
	k.trash.Wait()
	k.closeScratch()
}

func (k *keeper) killBoxes() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range k.boxes {
		b.init.kill()
	}
}

// awaitDead returns when no process of a sandbox is left. An init closes its
// files, which is all that others see of its end, before its programs die.
func (k *keeper) awaitDead() {
	k.mu.Lock()
	boxes := slices.Collect(maps.Values(k.boxes))
	k.mu.Unlock()
	for _, b := range boxes {
		<-b.init.done // the backend kills us if that takes too long
	}
}

// number is unique in this keeper.
func (k *keeper) number() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	return k.next
}

// openHost opens a path of the machine.
func (k *keeper) openHost(p image.HostPath) (int, error) {
	return openat2(k.host, strings.TrimPrefix(string(p), "/"), unix.O_PATH, 0, unix.RESOLVE_IN_ROOT)
}

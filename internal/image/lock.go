package image

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileLock is an advisory lock between processes. It ends with the process.
type fileLock struct{ f *os.File }

type lockMode int

const (
	_ lockMode = iota
	shared
	exclusive
	exclusiveNow // errLocked instead of waiting
)

var errLocked = errors.New("locked by another process")

const lockSuffix = ".lock"

// lockFile takes the lock on a file, which it makes if it is missing.
func lockFile(path string, mode lockMode) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	how := map[lockMode]int{shared: unix.LOCK_SH, exclusive: unix.LOCK_EX, exclusiveNow: unix.LOCK_EX | unix.LOCK_NB}[mode]
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return &fileLock{f}, nil
	}
	f.Close()
	if err == unix.EWOULDBLOCK {
		return nil, errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// current reports whether the lock's file is still the one at its path: its
// last holder may have removed it between our opening and locking it.
func (l *fileLock) current() bool {
	held, err := l.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.f.Name())
	return err == nil && os.SameFile(held, there)
}

// lockNew makes and takes the lock of something that is about to be made. A
// sweeper may find the file before it is locked, and remove it: then the next
// one is made.
func lockNew(path string) (*fileLock, error) {
	for {
		l, err := lockFile(path, exclusive)
		if err != nil || l.current() {
			return l, err
		}
		l.unlock()
	}
}

// lockDead takes the lock of something whose maker may have died. One that
// lives is errLocked; a lock file that is not there is fs.ErrNotExist, and
// says that the maker is done.
func lockDead(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return takeDead(f)
}

// takeDead is lockDead of an open file or directory, which it closes unless it
// takes it.
func takeDead(f *os.File) (*fileLock, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &fileLock{f}, nil
	}
	f.Close()
	if err == unix.EWOULDBLOCK {
		err = errLocked
	}
	return nil, err
}

func (l *fileLock) unlock() { l.f.Close() }

// removeAndUnlock is for locks whose file means nothing without its holder.
func (l *fileLock) removeAndUnlock() {
	_ = os.Remove(l.f.Name()) // a file left behind is swept by the collector
	l.f.Close()
}

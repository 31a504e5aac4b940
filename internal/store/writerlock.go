package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrLocked means that another process writes the job.
var ErrLocked = errors.New("the job is being written by another process")

// lockPatience is how long a writer waits for the lock: a reader that asks
// whether the job is live holds it for a moment.
const lockPatience = 300 * time.Millisecond

// takeLock takes the writer's lock of a job directory and puts this process's
// id into it. The file stays when the lock is released: removing it would let
// two writers hold locks on two files of one name.
func takeLock(dir string) (*os.File, error) {
	name := filepath.Join(dir, writerFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock job %q: %w", dir, err)
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock job %q: %w (does the file system hold locks? put the job on a local disk)", dir, err)
		}
		if time.Now().After(until) {
			pid := lockHolder(f)
			f.Close()
			return nil, fmt.Errorf("lock job %q: %w: process %s; wait for it or end it", dir, ErrLocked, pid)
		}
	}
	if err := f.Truncate(0); err == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // only for the message above
	}
	return f, nil
}

// freeLock releases the lock at once. Closing alone would not: a child that
// this process forks holds a copy of the file until it executes its program.
func freeLock(f *os.File) error {
	return errors.Join(flock(f, syscall.LOCK_UN), f.Close())
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

func lockHolder(f *os.File) string {
	b, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return strconv.Itoa(pid)
	}
	return "unknown"
}

// locked reports whether somebody writes the job. It holds the lock for an
// instant, shared, which a starting writer waits out.
func locked(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, writerFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	if err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return errors.Is(err, syscall.EWOULDBLOCK)
	}
	flock(f, syscall.LOCK_UN)
	return false
}

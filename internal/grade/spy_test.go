package grade

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// spy wraps any backend and writes down what is done to which sandbox, so that
// tests can judge the order of things. It can hold up a Get, so that what a
// process does meanwhile shows.
type spy struct {
	sandbox.Backend
	mu    sync.Mutex
	n     int
	log   []string
	slow  time.Duration // before a Get of /logs/verifier
	fail  map[string]error
	specs []sandbox.Spec
}

func (s *spy) did(format string, a ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := fmt.Sprintf(format, a...)
	s.log = append(s.log, l)
	for what, err := range s.fail {
		if strings.Contains(l, what) {
			return err
		}
	}
	return nil
}

// after forgets what was done before.
func (s *spy) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.specs = nil, nil
}

func (s *spy) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// index is the place of the first line that holds what, from place from on.
func (s *spy) index(what string, from int) int {
	for i, l := range s.lines() {
		if i >= from && strings.Contains(l, what) {
			return i
		}
	}
	return -1
}

func (s *spy) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s.mu.Lock()
	s.n++
	name := fmt.Sprint("box", s.n)
	s.specs = append(s.specs, spec)
	s.mu.Unlock()
	if err := s.did("%s create", name); err != nil {
		return nil, err
	}
	sb, err := s.Backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &spied{Sandbox: sb, s: s, name: name}, nil
}

type spied struct {
	sandbox.Sandbox
	s    *spy
	name string
}

func (x *spied) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := x.s.did("%s start %s", x.name, path.Base(c.Args[len(c.Args)-1])); err != nil {
		return nil, err
	}
	return x.Sandbox.Start(ctx, c)
}

func (x *spied) Put(ctx context.Context, dst image.Path, r io.Reader) error {
	if err := x.s.did("%s put %s", x.name, dst); err != nil {
		return err
	}
	return x.Sandbox.Put(ctx, dst, r)
}

func (x *spied) Get(ctx context.Context, src image.Path, w io.Writer, limit int64) error {
	if err := x.s.did("%s get %s", x.name, src); err != nil {
		return err
	}
	if strings.HasPrefix(string(src), "/"+verifierDir) {
		time.Sleep(x.s.slow)
	}
	return x.Sandbox.Get(ctx, src, w, limit)
}

func (x *spied) Kill(ctx context.Context) error {
	if err := x.s.did("%s kill", x.name); err != nil {
		return err
	}
	return x.Sandbox.Kill(ctx)
}

func (x *spied) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	if err := x.s.did("%s snapshot", x.name); err != nil {
		return "", err
	}
	return x.Sandbox.Snapshot(ctx)
}

func (x *spied) Close() error {
	_ = x.s.did("%s close", x.name)
	return x.Sandbox.Close()
}

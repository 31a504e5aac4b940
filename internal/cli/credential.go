package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"assay/internal/model/catalog"
)

const (
	maxCredential     = 64 << 10 // bytes of a file or of a command's output
	credentialCommand = 30 * time.Second
)

// credential finds a credential on this machine, and keeps it for as long as
// it is good. It goes to a provider and nowhere else.
type credential struct {
	a    *app
	from catalog.Credential
	name string // of the model

	mu   sync.Mutex
	is   string
	read time.Time
}

// get returns the credential; refresh: a provider has just refused it.
func (c *credential) get(ctx context.Context, refresh bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ttl := time.Duration(c.from.TTL)
	if c.is != "" && !refresh && (ttl == 0 || time.Since(c.read) < ttl) {
		return c.is, nil
	}
	is, err := c.find(ctx)
	if err != nil {
		return "", fmt.Errorf("credential of model %s: %w", c.name, err)
	}
	c.is, c.read = is, time.Now()
	return is, nil
}

func (c *credential) find(ctx context.Context) (string, error) {
	var text []byte
	where := ""
	switch {
	case c.from.Env != "":
		where = "the variable " + c.from.Env
		text = []byte(c.a.env(c.from.Env))
	case c.from.File != "":
		where = c.from.File
		path := c.from.File
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(c.a.env("HOME"), rest)
		}
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if text, err = io.ReadAll(io.LimitReader(f, maxCredential)); err != nil {
			return "", err
		}
	default:
		where = "the output of " + c.from.Command[0]
		var err error
		if text, err = runCredential(ctx, c.from.Command); err != nil {
			return "", err
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%s is empty", where)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("%s does not begin with a line of plain characters", where)
	}
	return line, nil
}

// runCredential runs a command of the models file. What it prints is no part
// of an error: it may be the credential.
func runCredential(ctx context.Context, args []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, credentialCommand)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &capped{w: &out, left: maxCredential}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than %v", credentialCommand)
		}
		return nil, fmt.Errorf("run %s: %w", args[0], err)
	}
	return out.Bytes(), nil
}

// capped fails a writer that says too much.
type capped struct {
	w    io.Writer
	left int
}

func (c *capped) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		return 0, errors.New("too much output")
	}
	return c.w.Write(b)
}

package fake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"assay/internal/image"
)

// shell is the state of one running script.
type shell struct {
	box  *box
	ses  *session
	vars map[string]string
	dir  string
	args []string // $0, $1, …
	fds  [3]any   // io.Reader, io.Writer, io.Writer
	last int
	jobs *sync.WaitGroup
	deep int
}

// exitError ends a script.
type exitError int

func (e exitError) Error() string { return "exit " + strconv.Itoa(int(e)) }

func (sh *shell) in() io.Reader  { return sh.fds[0].(io.Reader) }
func (sh *shell) out() io.Writer { return sh.fds[1].(io.Writer) }
func (sh *shell) err() io.Writer { return sh.fds[2].(io.Writer) }

// fork is a subshell.
func (sh *shell) fork() *shell {
	c := *sh
	c.vars = maps.Clone(sh.vars)
	c.jobs = &sync.WaitGroup{}
	return &c
}

// abs is a path as seen from the working directory.
func (sh *shell) abs(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return sh.dir + "/" + p
}

// tree runs f with the tree held.
func (sh *shell) tree(f func(w walker) error) error {
	sh.box.mu.Lock()
	defer sh.box.mu.Unlock()
	return f(walker{root: sh.box.root})
}

// script runs source text and returns its status.
func (sh *shell) script(src string) int {
	l, err := parse(src)
	if err != nil {
		fmt.Fprintln(sh.err(), "sh:", err)
		return 2
	}
	err = sh.list(l)
	var e exitError
	if errors.As(err, &e) {
		return int(e)
	}
	return sh.last
}

func (sh *shell) list(l list) error {
	for _, it := range l {
		if sh.ses.dead() {
			return exitError(128 + int(syscall.SIGKILL))
		}
		if it.background {
			c := sh.fork()
			c.fds[0] = strings.NewReader("")
			sh.jobs.Add(1)
			sh.ses.children.Add(1)
			go func() {
				defer sh.ses.children.Done()
				defer sh.jobs.Done()
				c.run(it.cmd)
			}()
			sh.last = 0
			continue
		}
		if err := sh.stmt(it.cmd); err != nil {
			return err
		}
	}
	return nil
}

// run is a statement in a subshell.
func (sh *shell) run(s stmt) int {
	var e exitError
	if errors.As(sh.stmt(s), &e) {
		return int(e)
	}
	return sh.last
}

func (sh *shell) stmt(s stmt) error {
	if sh.deep++; sh.deep > maxNesting {
		return exitError(2)
	}
	defer func() { sh.deep-- }()
	switch s := s.(type) {
	case andOr:
		if err := sh.stmt(s.left); err != nil || (sh.last == 0) != s.and {
			return err
		}
		return sh.stmt(s.right)
	case negated:
		err := sh.stmt(s.cmd)
		sh.last = truth(sh.last != 0)
		return err
	case pipeline:
		sh.pipeline(s)
	case *group:
		return sh.redirected(s.redirs, func() error { return sh.group(s) })
	case *simple:
		return sh.simple(s)
	}
	return nil
}

func truth(b bool) int {
	if b {
		return 0
	}
	return 1
}

func (sh *shell) pipeline(p pipeline) {
	var wg sync.WaitGroup
	in := sh.fds[0]
	for i, s := range p {
		c := sh.fork()
		c.fds[0] = in
		if i == len(p)-1 {
			sh.last = c.run(s)
			if r, ok := in.(*io.PipeReader); ok {
				r.Close()
			}
			break
		}
		r, w := io.Pipe()
		c.fds[1] = w
		mine := in
		wg.Go(func() {
			c.run(s)
			w.Close()
			if r, ok := mine.(*io.PipeReader); ok {
				r.Close()
			}
		})
		in = r
	}
	wg.Wait()
}

func (sh *shell) group(g *group) error {
	switch g.loop {
	case "":
		if !g.sub {
			return sh.list(g.body)
		}
		c := sh.fork()
		var e exitError
		err := c.list(g.body)
		if sh.last = c.last; errors.As(err, &e) {
			sh.last = int(e)
		}
	case "if":
		if err := sh.list(g.cond); err != nil {
			return err
		}
		if sh.last == 0 {
			return sh.list(g.body)
		}
		sh.last = 0
		return sh.list(g.orElse)
	case "for":
		for _, v := range sh.expandAll(g.words) {
			sh.vars[g.name] = v
			if err := sh.list(g.body); err != nil {
				return err
			}
		}
	default:
		for {
			if err := sh.list(g.cond); err != nil {
				return err
			}
			if (sh.last == 0) != (g.loop == "while") {
				sh.last = 0
				return nil
			}
			if err := sh.list(g.body); err != nil {
				return err
			}
			if sh.ses.dead() {
				return exitError(128 + int(syscall.SIGKILL))
			}
		}
	}
	return nil
}

func (sh *shell) simple(c *simple) error {
	words := sh.expandAll(c.words)
	if len(words) == 0 {
		for _, a := range c.assigns {
			sh.vars[a.name] = sh.expand(a.value)
		}
		sh.last = 0
		return sh.redirected(c.redirs, func() error { return nil })
	}
	old := maps.Clone(sh.vars)
	for _, a := range c.assigns {
		sh.vars[a.name] = sh.expand(a.value)
	}
	err := sh.redirected(c.redirs, func() error { return sh.call(words) })
	if len(c.assigns) > 0 {
		sh.vars = old
	}
	return err
}

// redirected runs f with other streams.
func (sh *shell) redirected(rs []redir, f func() error) error {
	old := sh.fds
	defer func() { sh.fds = old }()
	var done []func() error
	for _, r := range rs {
		to := sh.expand(r.to)
		if r.op == ">&" || r.op == "<&" {
			if n, err := strconv.Atoi(to); err == nil && n < 3 && r.fd < 3 {
				sh.fds[r.fd] = sh.fds[n]
			}
			continue
		}
		if r.fd > 2 {
			continue
		}
		end, err := sh.openRedir(r, to)
		if err != nil {
			fmt.Fprintf(old[2].(io.Writer), "sh: %s: %v\n", to, err)
			sh.last = 2
			return nil
		}
		done = append(done, end)
	}
	err := f()
	for _, end := range done {
		if cerr := end(); cerr != nil {
			fmt.Fprintln(old[2].(io.Writer), "sh:", cerr)
			sh.last = 2
		}
	}
	return err
}

func (sh *shell) openRedir(r redir, to string) (end func() error, err error) {
	nothing := func() error { return nil }
	if r.op == "<" {
		data, err := sh.read(to)
		sh.fds[0] = bytes.NewReader(data)
		return nothing, err
	}
	if to == "/dev/null" {
		sh.fds[r.fd] = io.Discard
		return nothing, nil
	}
	p := sh.abs(to)
	if err := sh.tree(func(w walker) error { return w.write(p, nil, true) }); err != nil {
		return nil, err
	}
	if r.op == ">" {
		err = sh.tree(func(w walker) error { return w.write(p, nil, false) })
	}
	sh.fds[r.fd] = fileWriter{sh, p}
	return nothing, err
}

// fileWriter appends to a file of the tree.
type fileWriter struct {
	sh *shell
	p  string
}

func (f fileWriter) Write(b []byte) (int, error) {
	err := f.sh.tree(func(w walker) error { return w.write(f.p, b, true) })
	return len(b), err
}

// read is a file's content; /dev/null is empty.
func (sh *shell) read(p string) (data []byte, err error) {
	if p == "/dev/null" {
		return nil, nil
	}
	err = sh.tree(func(w walker) error {
		n, err := w.find(sh.abs(p), true)
		if err == nil && n.typ == image.TypeDir {
			err = syscall.EISDIR
		}
		if err == nil {
			data, err = n.content()
		}
		return err
	})
	return data, err
}

func (sh *shell) expandAll(ws []word) []string {
	var out []string
	for _, w := range ws {
		if len(w) == 1 && w[0].kind == 'v' && w[0].text == "@" {
			out = append(out, sh.args[min(1, len(sh.args)):]...)
			continue
		}
		plain := slices.ContainsFunc(w, func(p part) bool { return p.quoted || p.kind == 0 })
		s := sh.expand(w)
		if !plain { // an unquoted expansion is split
			out = append(out, strings.Fields(s)...)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (sh *shell) expand(w word) string {
	var b strings.Builder
	for _, p := range w {
		switch p.kind {
		case 0:
			b.WriteString(p.text)
		case 'v':
			b.WriteString(sh.variable(p.text))
		case 'a':
			b.WriteString(strconv.FormatInt(sh.arithmetic(p.text), 10))
		case 'c':
			b.WriteString(sh.substitute(p.text))
		}
	}
	return b.String()
}

func (sh *shell) substitute(src string) string {
	var out bytes.Buffer
	c := sh.fork()
	c.fds[1] = &out
	sh.last = c.script(src)
	return strings.TrimRight(out.String(), "\n")
}

func (sh *shell) variable(name string) string {
	key, def, hasDef := strings.Cut(name, ":-")
	switch key {
	case "?":
		return strconv.Itoa(sh.last)
	case "$":
		return strconv.Itoa(sh.ses.id)
	case "#":
		return strconv.Itoa(max(len(sh.args)-1, 0))
	case "@", "*":
		return strings.Join(sh.args[min(1, len(sh.args)):], " ")
	}
	v := sh.vars[key]
	if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(sh.args) {
		v = sh.args[i]
	}
	if v == "" && hasDef {
		return def
	}
	return v
}

// arithmetic knows numbers, variables, + - * and nothing else, left to right.
func (sh *shell) arithmetic(src string) int64 {
	var total int64
	op := byte('+')
	for f := range strings.FieldsSeq(strings.NewReplacer("+", " + ", "-", " - ", "*", " * ").Replace(src)) {
		if len(f) == 1 && strings.Contains("+-*", f) {
			op = f[0]
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			n, _ = strconv.ParseInt(sh.variable(strings.TrimPrefix(f, "$")), 10, 64) // unset counts as 0
		}
		switch op {
		case '+':
			total += n
		case '-':
			total -= n
		case '*':
			total *= n
		}
	}
	return total
}

// call runs a command of words.
func (sh *shell) call(words []string) error {
	name, args := words[0], words[1:]
	switch name {
	case "exit":
		code := sh.last
		if len(args) > 0 {
			code, _ = strconv.Atoi(args[0])
		}
		return exitError(code & 0xff)
	case "exec":
		if len(args) > 0 {
			if err := sh.call(args); err != nil {
				return err
			}
			return exitError(sh.last)
		}
		return nil
	case "cd", "export", "set", "trap", "wait", "read", "unset", "shift":
		sh.last = sh.builtin(name, args)
		return nil
	}
	sh.last = sh.program(name, args)
	return nil
}

func (sh *shell) builtin(name string, args []string) int {
	switch name {
	case "cd":
		to := "/root"
		if len(args) > 0 {
			to = args[0]
		}
		p := sh.abs(to)
		err := sh.tree(func(w walker) error {
			n, err := w.find(p, true)
			if err == nil && n.typ != image.TypeDir {
				err = syscall.ENOTDIR
			}
			return err
		})
		if err != nil {
			fmt.Fprintf(sh.err(), "sh: cd: %s: %v\n", to, err)
			return 2
		}
		sh.dir = clean(p)
	case "export":
		for _, a := range args {
			if k, v, ok := strings.Cut(a, "="); ok {
				sh.vars[k] = v
			}
		}
	case "unset":
		for _, a := range args {
			delete(sh.vars, a)
		}
	case "shift":
		if len(sh.args) > 1 {
			sh.args = append(sh.args[:1:1], sh.args[2:]...)
		}
	case "trap":
		if len(args) > 1 && args[0] == "" {
			sh.ses.ignore(args[1:])
		}
	case "wait":
		sh.ses.waitFor(sh.jobs)
	case "read":
		line, err := readLine(sh.in())
		if len(args) > 0 {
			sh.vars[args[len(args)-1]] = line
		}
		return truth(err == nil)
	}
	return 0
}

func readLine(r io.Reader) (string, error) {
	var line []byte
	var b [1]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return string(line), err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
}

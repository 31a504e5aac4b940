package fake

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/internal/image"
)

// tool is a program: arguments without its name, to its status.
type tool func(sh *shell, args []string) int

// tools are the programs of every tree.
func tools() map[string]tool {
	return map[string]tool{
		"sh": runShell, "bash": runShell, "true": func(*shell, []string) int { return 0 }, ":": func(*shell, []string) int { return 0 },
		"false": func(*shell, []string) int { return 1 }, "echo": echo, "printf": printf, "cat": cat, "pwd": pwd, "env": env,
		"mkdir": mkdir, "rm": rm, "mv": mv, "cp": cp, "ln": ln, "chmod": chmod, "touch": touch, "ls": ls, "rmdir": rm,
		"test": test, "[": bracket, "sleep": sleep, "head": head, "grep": grep, "find": find, "command": command, "id": id,
	}
}

// complain prints an error and is a failing status.
func (sh *shell) complain(name, what string, err error) int {
	fmt.Fprintf(sh.err(), "%s: %s: %v\n", name, what, err)
	return 1
}

// flags splits single-letter options off.
func flags(args []string) (set map[byte]bool, rest []string) {
	set = map[byte]bool{}
	for i, a := range args {
		if a == "--" {
			return set, args[i+1:]
		}
		if len(a) < 2 || a[0] != '-' {
			return set, args[i:]
		}
		for j := 1; j < len(a); j++ {
			set[a[j]] = true
		}
	}
	return set, nil
}

func runShell(sh *shell, args []string) int {
	c := sh.fork()
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-c" && !strings.HasSuffix(args[0], "c") {
		args = args[1:]
	}
	switch {
	case len(args) > 1 && strings.HasPrefix(args[0], "-"):
		if c.args = args[2:]; len(c.args) == 0 {
			c.args = []string{"sh"}
		}
		return c.script(args[1])
	case len(args) > 0:
		src, err := sh.read(args[0])
		if err != nil {
			sh.complain("sh", args[0], err)
			return 127
		}
		c.args = args
		return c.script(string(src))
	}
	src, err := io.ReadAll(sh.in())
	if err != nil {
		return 1
	}
	return c.script(string(src))
}

func echo(sh *shell, args []string) int {
	end := "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	_, err := io.WriteString(sh.out(), strings.Join(args, " ")+end)
	return truth(err == nil)
}

func printf(sh *shell, args []string) int {
	if len(args) == 0 {
		return 2
	}
	f := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(args[0])
	args = args[1:]
	for {
		var b strings.Builder
		for i := 0; i < len(f); i++ {
			if f[i] != '%' || i+1 == len(f) {
				b.WriteByte(f[i])
				continue
			}
			i++
			if f[i] == '%' {
				b.WriteByte('%')
				continue
			}
			if len(args) > 0 {
				b.WriteString(args[0])
				args = args[1:]
			}
		}
		if _, err := io.WriteString(sh.out(), b.String()); err != nil {
			return 1
		}
		if len(args) == 0 || !strings.Contains(f, "%") {
			return 0
		}
	}
}

func cat(sh *shell, args []string) int {
	if len(args) == 0 {
		_, err := io.Copy(sh.out(), sh.in())
		return truth(err == nil)
	}
	status := 0
	for _, p := range args {
		data, err := sh.read(p)
		if err == nil {
			_, err = sh.out().Write(data)
		}
		if err != nil {
			status = sh.complain("cat", p, err)
		}
	}
	return status
}

func pwd(sh *shell, _ []string) int { return echo(sh, []string{sh.dir}) }

func id(sh *shell, args []string) int {
	if len(args) > 0 {
		return echo(sh, []string{"0"})
	}
	return echo(sh, []string{"uid=0(root) gid=0(root)"})
}

func env(sh *shell, _ []string) int {
	for _, k := range slices.Sorted(maps.Keys(sh.vars)) {
		echo(sh, []string{k + "=" + sh.vars[k]})
	}
	return 0
}

// each does something to every path, with the tree held.
func (sh *shell) each(name string, paths []string, f func(w walker, p string) error) int {
	status := 0
	for _, p := range paths {
		if err := sh.tree(func(w walker) error { return f(w, sh.abs(p)) }); err != nil {
			status = sh.complain(name, p, err)
		}
	}
	return status
}

func mkdir(sh *shell, args []string) int {
	f, paths := flags(args)
	return sh.each("mkdir", paths, func(w walker, p string) error {
		if f['p'] {
			_, err := w.mkdirs(p, 0o755)
			return err
		}
		dir, base, n, err := w.walk(strings.TrimRight(p, "/"), false)
		if err == nil && n != nil {
			err = syscall.EEXIST
		}
		if err == nil {
			dir.children[base] = newDir(0o755)
		}
		return err
	})
}

func rm(sh *shell, args []string) int {
	f, paths := flags(args)
	return sh.each("rm", paths, func(w walker, p string) error {
		dir, base, n, err := w.walk(p, false)
		switch {
		case (err != nil && isNotExist(err) || err == nil && n == nil) && f['f']:
			return nil
		case err == nil && n == nil:
			return syscall.ENOENT
		case err == nil && n.typ == image.TypeDir && !f['r'] && len(n.children) > 0:
			return syscall.EISDIR
		case err == nil && dir == nil:
			return syscall.EBUSY // the root
		case err == nil:
			delete(dir.children, base)
		}
		return err
	})
}

// into gives a target's directory and name: within to, if that is one.
func (w walker) into(to, base string) (*node, string, error) {
	dir, name, n, err := w.walk(to, true)
	if err != nil {
		return nil, "", err
	}
	if n != nil && n.typ == image.TypeDir {
		return n, base, nil
	}
	return dir, name, nil
}

func move(sh *shell, name string, args []string, keep bool) int {
	_, paths := flags(args)
	if len(paths) < 2 {
		return 2
	}
	to := sh.abs(paths[len(paths)-1])
	return sh.each(name, paths[:len(paths)-1], func(w walker, p string) error {
		dir, base, n, err := w.walk(p, keep)
		if err == nil && (n == nil || dir == nil) {
			err = syscall.ENOENT
		}
		if err != nil {
			return err
		}
		target, as, err := w.into(to, base)
		if err != nil {
			return err
		}
		if keep {
			n = n.clone(map[*node]*node{})
			n.entry = nil
		} else {
			delete(dir.children, base)
		}
		target.children[as] = n
		return nil
	})
}

func mv(sh *shell, args []string) int { return move(sh, "mv", args, false) }
func cp(sh *shell, args []string) int { return move(sh, "cp", args, true) }

func ln(sh *shell, args []string) int {
	f, paths := flags(args)
	if len(paths) != 2 {
		return 2
	}
	return sh.each("ln", paths[1:], func(w walker, p string) error {
		dir, base, err := w.into(p, path.Base(paths[0]))
		if err != nil {
			return err
		}
		if dir.children[base] != nil && !f['f'] {
			return syscall.EEXIST
		}
		if f['s'] {
			dir.children[base] = &node{typ: image.TypeSymlink, mode: 0o777, link: paths[0], mtime: time.Now()}
			return nil
		}
		n, err := w.find(sh.abs(paths[0]), false)
		if err == nil {
			dir.children[base] = n
		}
		return err
	})
}

func chmod(sh *shell, args []string) int {
	if len(args) < 2 {
		return 2
	}
	return sh.each("chmod", args[1:], func(w walker, p string) error {
		n, err := w.find(p, true)
		if err != nil {
			return err
		}
		if m, perr := strconv.ParseUint(args[0], 8, 12); perr == nil {
			n.mode = uint32(m)
		} else if args[0] == "+x" {
			n.mode |= 0o111
		} else {
			err = syscall.EINVAL
		}
		return err
	})
}

func touch(sh *shell, args []string) int {
	return sh.each("touch", args, func(w walker, p string) error { return w.write(p, nil, true) })
}

func ls(sh *shell, args []string) int {
	_, paths := flags(args)
	if len(paths) == 0 {
		paths = []string{"."}
	}
	// Where the output goes to a file, writing takes the tree's lock.
	var listed strings.Builder
	code := sh.each("ls", paths, func(w walker, p string) error {
		n, err := w.find(p, true)
		if err != nil {
			return err
		}
		if n.typ != image.TypeDir {
			fmt.Fprintln(&listed, path.Base(p))
			return nil
		}
		listed.WriteString(strings.Join(append(n.names(), ""), "\n"))
		return nil
	})
	if _, err := io.WriteString(sh.out(), listed.String()); err != nil {
		return 1
	}
	return code
}

func bracket(sh *shell, args []string) int {
	if len(args) == 0 || args[len(args)-1] != "]" {
		return 2
	}
	return test(sh, args[:len(args)-1])
}

func test(sh *shell, args []string) int {
	if len(args) > 0 && args[0] == "!" {
		return truth(test(sh, args[1:]) != 0)
	}
	switch len(args) {
	case 0:
		return 1
	case 1:
		return truth(args[0] != "")
	case 2:
		return truth(sh.testFile(args[0], args[1]))
	case 3:
		return truth(compare(args[0], args[1], args[2]))
	}
	return 2
}

func (sh *shell) testFile(op, arg string) bool {
	switch op {
	case "-z":
		return arg == ""
	case "-n":
		return arg != ""
	}
	var n *node
	err := sh.tree(func(w walker) (err error) {
		n, err = w.find(sh.abs(arg), op != "-L" && op != "-h")
		return err
	})
	if err != nil {
		return false
	}
	switch op {
	case "-e":
		return true
	case "-f":
		return n.typ == image.TypeFile
	case "-d":
		return n.typ == image.TypeDir
	case "-L", "-h":
		return n.typ == image.TypeSymlink
	case "-x":
		return n.mode&0o111 != 0
	case "-s":
		return len(n.data) > 0 || n.load != nil && n.size > 0
	}
	return op == "-r" || op == "-w"
}

func compare(a, op, b string) bool {
	switch op {
	case "=", "==":
		return a == b
	case "!=":
		return a != b
	}
	x, xerr := strconv.Atoi(a)
	y, yerr := strconv.Atoi(b)
	if xerr != nil || yerr != nil {
		return false
	}
	return map[string]bool{"-eq": x == y, "-ne": x != y, "-lt": x < y, "-le": x <= y, "-gt": x > y, "-ge": x >= y}[op]
}

func sleep(sh *shell, args []string) int {
	if len(args) == 0 {
		return 1
	}
	s, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return sh.complain("sleep", args[0], err)
	}
	return truth(sh.ses.pause(time.Duration(s * float64(time.Second))))
}

func head(sh *shell, args []string) int {
	if len(args) < 2 || args[0] != "-c" {
		return 2
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return sh.complain("head", args[1], err)
	}
	in := sh.in()
	if len(args) > 2 && args[2] == "/dev/zero" {
		in = zeros{}
	} else if len(args) > 2 {
		data, err := sh.read(args[2])
		if err != nil {
			return sh.complain("head", args[2], err)
		}
		in = strings.NewReader(string(data))
	}
	_, err = io.CopyN(sh.out(), in, n)
	return truth(err == nil || err == io.EOF)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// grep finds fixed text.
func grep(sh *shell, args []string) int {
	f, rest := flags(args)
	if len(rest) == 0 {
		return 2
	}
	data := []byte(nil)
	var err error
	if len(rest) == 1 {
		data, err = io.ReadAll(sh.in())
	}
	for _, p := range rest[1:] {
		more, rerr := sh.read(p)
		if data = append(data, more...); rerr != nil {
			err = rerr
		}
	}
	if err != nil {
		sh.complain("grep", rest[0], err)
		return 2
	}
	found := 1
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, rest[0]) != f['v'] {
			found = 0
			if !f['q'] {
				io.WriteString(sh.out(), line)
			}
		}
	}
	return found
}

// find lists every path below.
func find(sh *shell, args []string) int {
	if len(args) == 0 {
		args = []string{"."}
	}
	var walk func(n *node, p string)
	walk = func(n *node, p string) {
		fmt.Fprintln(sh.out(), p)
		for _, name := range n.names() {
			walk(n.children[name], p+"/"+name)
		}
	}
	var top *node // printed without the tree's lock, which a file as output takes
	code := sh.each("find", args[:1], func(w walker, p string) error {
		n, err := w.find(p, false)
		if err == nil {
			top = n.clone(map[*node]*node{})
		}
		return err
	})
	if top != nil {
		walk(top, args[0])
	}
	return code
}

func command(sh *shell, args []string) int {
	if len(args) == 2 && args[0] == "-v" {
		if sh.runnable(args[1]) != nil {
			return 127
		}
		return echo(sh, []string{"/bin/" + args[1]})
	}
	if len(args) == 0 {
		return 0
	}
	return sh.program(args[0], args[1:])
}

package task

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// within1s fails when a hostile directory makes the reader wait or work long.
func within1s(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// Each hostile directory gives one clear error and a finding at the same file.
func TestHostileDirectories(t *testing.T) {
	cases := map[string]struct {
		make func(t *testing.T, dir string)
		load string // what Load says; empty: it loads, as in Harbor
		hash string // what Digest says; empty: it hashes
		file string // where Lint sees it
	}{
		"pipe among the tests":       {make: fifo("tests/pipe"), load: "tests/pipe: is a named pipe", file: "tests/pipe"},
		"pipe as the configuration":  {make: fifo("task.toml"), load: "task.toml: is a named pipe", hash: "task.toml: is a named pipe", file: "task.toml"},
		"pipe as the instruction":    {make: fifo("instruction.md"), load: "instruction.md: is a named pipe", hash: "instruction.md: is a named pipe", file: "instruction.md"},
		"pipe as an ignore file":     {make: fifo("tests/.harborignore"), load: "tests/.harborignore: is a named pipe", hash: "tests/.harborignore", file: "tests/.harborignore"},
		"pipe as .gitignore":         {make: fifo(".gitignore"), hash: ".gitignore: is a named pipe", file: ".gitignore"},
		"socket":                     {make: socket("solution/s"), load: "solution/s: is a socket", file: "solution/s"},
		"device":                     {make: device("tests/zero"), load: "tests/zero: is a device", file: "tests/zero"},
		"link to a device":           {make: link("/dev/zero", "tests/zero"), load: "tests/zero: a link leads out", file: "tests/zero"},
		"link out":                   {make: link("../../..", "tests/up"), load: "tests/up: a link leads out of the task", file: "tests/up"},
		"link out of environment":    {make: link("/etc/passwd", "environment/p"), file: "environment/p"},
		"configuration from outside": {make: link("/etc/passwd", "task.toml"), load: "task.toml: a link leads out", file: "task.toml"},
		"instruction from outside":   {make: link("/etc/passwd", "instruction.md"), load: "instruction.md: a link leads out", file: "instruction.md"},
		"link to itself":             {make: link("self", "tests/self"), load: "tests/self: links form a cycle", hash: "tests/self: links form a cycle", file: "tests/self"},
		"directory cycle":            {make: link("../tests", "tests/again"), load: "tests/again: links form a cycle", file: "tests/again"},
		"solution outside":           {make: link("/usr", "solution"), load: "solution: a link leads out", hash: "solution/.harborignore: a link leads out", file: "solution"},
		"10 GB sparse file":          {make: sparse("tests/big", 10<<30), load: "tests/big: holds 10 GiB", hash: "tests/big: holds 10 GiB", file: "tests/big"},
		"sparse in environment":      {make: sparse("environment/big", 10<<30), hash: "environment/big: holds 10 GiB", file: "environment/big"},
		"sparse configuration":       {make: sparse("task.toml", 10<<30), load: "task.toml: is larger than 1 MiB", hash: "task.toml: holds 10 GiB", file: "task.toml"},
		"sparse instruction":         {make: sparse("instruction.md", 1<<29), load: "instruction.md: is larger than 8 MiB", file: "instruction.md"},
		"name with a line break":     {make: write("tests/a\nb", ""), file: "tests/a\nb"},
		"name that is not UTF-8":     {make: write("tests/\xff\xfe", ""), hash: `"tests/\xff\xfe": its name is not UTF-8`, file: "tests/\xff\xfe"},
		"text that is not UTF-8":     {make: write("instruction.md", "\xff"), load: "instruction.md: is not UTF-8", file: "instruction.md"},
		"deep nesting":               {make: write("task.toml", "a = "+strings.Repeat("[", 500000)), load: "task.toml:1:1: lists or tables nested deeper", file: "task.toml"},
		"dotted nesting":             {make: write("task.toml", "a"+strings.Repeat(".a", 200000)+" = 1"), load: "task.toml:1:1: lists or tables", file: "task.toml"},
		"tests is a file":            {make: swapFor("tests", ""), load: "tests/test.sh: missing", hash: "tests: must be a directory", file: "tests/test.sh"},
		"configuration is a directory": {make: func(t *testing.T, dir string) {
			os.Remove(dir + "/task.toml")
			os.Mkdir(dir+"/task.toml", 0o755)
		}, load: "task.toml: is a directory", hash: "task.toml: is a directory", file: "task.toml"},
		"ignore file of too many lines": {make: write("tests/.harborignore", strings.Repeat("a\n", 3000)), load: "tests/.harborignore: line 2001", hash: "line 2001", file: ""},
		"ignore file that is broken":    {make: write("solution/.harborignore", "ok\n!\n"), load: "solution/.harborignore: line 2: pattern", hash: "line 2", file: ""},
		"no instruction":                {make: gone("instruction.md"), load: "instruction.md: missing", file: "instruction.md"},
		"no environment":                {make: gone("environment"), load: "environment: missing", file: "environment"},
		"no test":                       {make: gone("tests/test.sh"), load: "tests/test.sh: missing", file: "tests/test.sh"},
		"unreadable directory":          {make: unreadable("tests/closed", 0), load: "tests/closed: cannot be read", hash: "tests/closed: cannot be read", file: "tests/closed"},
		"unreadable configuration":      {make: unreadableFile("task.toml"), load: "task.toml: permission denied", hash: "task.toml: permission denied", file: "task.toml"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := files(t, minimal(nil))
			c.make(t, dir)
			within1s(t, "Load", func() { said(t, "Load", c.load, func() error { _, err := Load(dir); return err }) })
			within1s(t, "Digest", func() { said(t, "Digest", c.hash, func() error { _, err := Digest(dir); return err }) })
			within1s(t, "Lint", func() {
				for _, f := range Lint(dir) {
					if f.File == filepath.Join(dir, c.file) && f.Severity == Error {
						return
					}
				}
				t.Errorf("no error at %q among %v", c.file, Lint(dir))
			})
		})
	}
}

func said(t *testing.T, who, want string, f func() error) {
	t.Helper()
	err := f()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", who, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", who, err, want)
	case err != nil && strings.Contains(strings.TrimRight(err.Error(), "\n"), "\n") && !strings.Contains(err.Error(), "~"):
		t.Errorf("%s: an error of several lines without an excerpt: %q", who, err)
	}
}

type maker = func(t *testing.T, dir string)

func fifo(name string) maker {
	return func(t *testing.T, dir string) {
		os.Remove(dir + "/" + name)
		if err := syscall.Mkfifo(dir+"/"+name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func socket(name string) maker {
	return func(t *testing.T, dir string) {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		t.Chdir(dir) // the path of a socket is short
		if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}

func device(name string) maker {
	return func(t *testing.T, dir string) {
		if runtime.GOOS != "linux" || os.Getuid() != 0 {
			t.Skip("only root on Linux can make a device file")
		}
		if err := mkZero(dir + "/" + name); err != nil {
			t.Skipf("device files cannot be made here: %v", err)
		}
	}
}

func mkZero(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|5) }

func link(target, name string) maker {
	return func(t *testing.T, dir string) {
		os.RemoveAll(dir + "/" + name)
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
}

func sparse(name string, size int64) maker {
	return func(t *testing.T, dir string) {
		f, err := os.Create(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			t.Skipf("the file system has no sparse files of %d bytes: %v", size, err)
		}
	}
}

func write(name, content string) maker {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o644); err != nil {
			t.Skipf("the file system refuses the name: %v", err)
		}
	}
}

func swapFor(name, content string) maker {
	return func(t *testing.T, dir string) {
		os.RemoveAll(dir + "/" + name)
		write(name, content)(t, dir)
	}
}

func gone(name string) maker {
	return func(t *testing.T, dir string) { os.RemoveAll(dir + "/" + name) }
}

func unreadable(name string, mode os.FileMode) maker {
	return func(t *testing.T, dir string) {
		if os.Getuid() == 0 {
			t.Skip("root can read everything")
		}
		if err := os.Mkdir(dir+"/"+name, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(dir+"/"+name, 0o755) })
	}
}

func unreadableFile(name string) maker {
	return func(t *testing.T, dir string) {
		if os.Getuid() == 0 {
			t.Skip("root can read everything")
		}
		if err := os.Chmod(dir+"/"+name, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// Links between directories can make a small tree look endless; the walk gives
// up at its cap.
func TestLinkExplosionEnds(t *testing.T) {
	all := minimal(nil)
	const levels = 24
	for i := range levels {
		for _, side := range []string{"l", "r"} {
			all["tests/"+string(rune('a'+i))+"/"+side] = "-> ../" + string(rune('a'+i+1))
		}
	}
	all["tests/"+string(rune('a'+levels))+"/end"] = ""
	dir := files(t, all)
	start := time.Now()
	_, err := Load(dir)
	if err == nil || !strings.Contains(err.Error(), "behind links to directories") {
		t.Errorf("%v", err)
	}
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("took %v", d)
	}
}

// A YAML file of nested flow lists or of repeated anchors must not end the
// process.
func TestHostileYAML(t *testing.T) {
	bomb := "a: &a [x, x]\n"
	for i := range 20 {
		bomb += string(rune('b'+i)) + ": &" + string(rune('b'+i)) + " [*" + string(rune('a'+i)) + ", *" + string(rune('a'+i)) + "]\n"
	}
	deep := ""
	for i := range 300 {
		deep += strings.Repeat(" ", i) + "a:\n"
	}
	for name, text := range map[string]string{
		"anchors":  bomb + "instruction: x\n",
		"brackets": "instruction: " + strings.Repeat("[", 400000) + "\n",
		"dashes":   "instruction:\n  " + strings.Repeat("- ", 100000) + "\n",
		"braces":   strings.Repeat("{a: ", 100000),
		"indent":   deep,
		"question": strings.Repeat("? ", 100000),
		"colons":   strings.Repeat("a: ", 100000),
		"lines":    strings.Repeat("[\n", 100000),
		"tags":     "a: " + strings.Repeat("!t ", 50000) + "x\n",
	} {
		dir := files(t, map[string]string{"task.yaml": text, "run-tests.sh": ""})
		start := time.Now()
		within1s(t, name, func() {
			if _, err := Load(dir); err == nil {
				t.Errorf("%s: loads", name)
			}
		})
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

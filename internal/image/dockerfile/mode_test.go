package dockerfile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Set-id and sticky bits are as in BuildKit, where chmod(1) is of another mind.
func TestModesOfSpecialBits(t *testing.T) {
	for _, c := range []struct {
		expr      string
		old, want uint32
	}{
		{"g+s", 0o755, 0o2755}, {"u+s", 0o755, 0o4755}, {"u-s", 0o7777, 0o3777}, {"a=s", 0o1777, 0o7000}, {"u=rwxs", 0o644, 0o4744},
		{"=r", 0o2777, 0o444}, {"a=", 0o7777, 0o1000}, {"go=", 0o7777, 0o5700}, {"u=rwX,go=rX", 0o7777, 0o1755},
		{"g=u", 0o7777, 0o7777}, {"u=g,g=o,o=", 0o7777, 0o7770}, {"+t", 0o755, 0o1755}, {"a-t", 0o1755, 0o755}, {"o+t", 0o755, 0o755},
	} {
		m, err := parseMode(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []bool{false, true} {
			if got := m.apply(c.old, dir); got != c.want {
				t.Errorf("%s of %04o, directory %v: %04o, want %04o", c.expr, c.old, dir, got, c.want)
			}
		}
	}
}

// Symbolic modes mean what chmod(1) makes of them.
func TestModesAsChmod(t *testing.T) {
	if _, err := exec.LookPath("chmod"); err != nil {
		t.Skip(err)
	}
	exprs := []string{"0", "644", "755", "u+x", "a+rwx", "+x", "-w", "=r", "go=", "go-rwx", "u=rwX,go=rX", "a+X", "u-X", "g=u", "o=g", "u=o",
		"a=rX,u+w", "u+r-w+x", "go=u,o-w", "a=", "u=g,g=o,o="}
	olds := []uint32{0, 0o644, 0o755, 0o600, 0o111, 0o777, 0o421}
	var script strings.Builder
	script.WriteString("umask 0; set -e\n")
	type want struct {
		expr string
		old  uint32
		dir  bool
	}
	var all []want
	for _, e := range exprs {
		for _, old := range olds {
			for _, dir := range []bool{false, true} {
				n := len(all)
				all = append(all, want{e, old, dir})
				if dir {
					fmt.Fprintf(&script, "mkdir %d; ", n)
				} else {
					fmt.Fprintf(&script, ": >%d; ", n)
				}
				fmt.Fprintf(&script, "chmod 0%o %d; chmod -- %s %d\n", old, n, e, n)
			}
		}
	}
	dir := t.TempDir()
	sh := exec.Command("sh", "-c", script.String())
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for n, w := range all {
		fi, err := os.Lstat(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMode(w.expr)
		if err != nil {
			t.Fatal(err)
		}
		got, want := m.apply(w.old, w.dir), mode(fi.Mode())
		if got != want {
			t.Errorf("%s of %04o, directory %v: %04o, chmod makes %04o", w.expr, w.old, w.dir, got, want)
		}
	}
}

func FuzzMode(f *testing.F) {
	f.Add("u=rwX,go-w", uint32(0o644))
	f.Add("7777", uint32(0))
	f.Add("a+", uint32(1))
	f.Fuzz(func(t *testing.T, s string, old uint32) {
		m, err := parseMode(s)
		if err != nil {
			return
		}
		for _, dir := range []bool{false, true} {
			if got := m.apply(old&0o7777, dir); got&^0o7777 != 0 {
				t.Errorf("%q makes %o of %o", s, got, old&0o7777)
			}
		}
	})
}

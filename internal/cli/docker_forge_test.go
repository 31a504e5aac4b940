package cli

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	goreg "github.com/google/go-containerregistry/pkg/registry"

	"assay/internal/forge"
	"assay/internal/image"
)

// smallBase takes out of a Debian root file system what a project in Python
// needs that has no dependencies: an image of 30 MB.
func smallBase(t *testing.T, from, to string) {
	t.Helper()
	const (
		programs = `sh dash bash env cat cp mv rm mkdir mktemp cut tr sort tail head wc id dirname basename grep sed awk mawk tar gzip find timeout printf test ls chmod chown ln touch true false date sleep su python3 python3\.11 git`
		needed   = `c|m|z|dl|pthread|util|rt|expat|acl|attr|selinux|pcre2-8|tinfo|crypt|bz2|lzma|gmp|ffi`
	)
	keep := regexp.MustCompile(`^(bin|sbin|lib|lib64|usr|usr/(bin|lib|lib64|sbin)|usr/lib/[^/]+-linux-gnu|tmp|root|run|var|var/tmp|etc(/.*)?|etc/alternatives/awk|usr/lib64/.*|` +
		`usr/bin/(` + strings.ReplaceAll(programs, " ", "|") + `)|usr/lib/python3\.11(/.*)?|usr/lib/[^/]+-linux-gnu/(ld-.*|lib(` + needed + `)\.so.*))$`)
	drop := regexp.MustCompile(`__pycache__|/(test|idlelib|lib2to3|ensurepip|pydoc_data|turtledemo|tkinter)(/|$)|config-3|^etc/(ssl|apt)/|_codecs_`)
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	r, w := tar.NewReader(in), tar.NewWriter(out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Trim(strings.TrimPrefix(h.Name, "."), "/")
		if !keep.MatchString(name) || drop.MatchString(name) {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// forgeWorld runs assay on one machine, which is a store, and the engine.
type forgeWorld struct {
	*testing.T
	dir, store string
}

func (w forgeWorld) assay(want int, args ...string) string {
	w.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"assay", "--store", filepath.Join(w.dir, w.store)}, args...)
	if code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: os.LookupEnv}); code != want {
		w.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, &out, &errs)
	}
	return out.String()
}

func (w forgeWorld) docker(args ...string) string {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), "docker", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		w.Fatalf("docker %q: %v\n%s%s", args, err, out, exit.Stderr)
	}
	if err != nil {
		w.Fatalf("docker %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// oracleAndNop runs a set, and wants gold to pass everywhere and nothing else.
func (w forgeWorld) oracleAndNop(set string, tasks int) {
	w.Helper()
	w.assay(0, "run", "-q", "-p", set, "-a", "oracle", "-a", "nop", "-n", "2", "-o", w.dir, "--job-name", "job-"+w.store, "--no-report")
	left := map[string]int{"oracle": tasks, "nop": tasks}
	got := w.assay(0, "job", "show", filepath.Join(w.dir, "job-"+w.store), "--trials", "--json")
	for line := range strings.Lines(got) {
		for agent, want := range map[string]string{"oracle": `"finished","outcome":"pass"`, "nop": `"finished","outcome":"fail"`} {
			if strings.Contains(line, `"agent":"`+agent+`"`) && strings.Contains(line, want) {
				left[agent]--
			}
		}
	}
	if left["oracle"] != 0 || left["nop"] != 0 {
		w.Errorf("in %s, of %d tasks not as wanted: %v\n%s", w.store, tasks, left, got)
	}
}

// A forged set on other machines. Plain Docker builds the broken state that
// assay proved, path by path, and there test.sh gives 1 with gold and 0 without;
// an empty store gets the healthy image from beside the tasks, or from the
// registry that it was sent to, by its digest.
func TestForgedSetsTravel(t *testing.T) {
	base := os.Getenv("ASSAY_BASE_TAR")
	if os.Getenv("DOCKER_HOST") == "" || base == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST and a Debian root file system named by ASSAY_BASE_TAR")
	}
	if why := refused(t); why != "" {
		t.Skip(why)
	}
	dir := scratch(t)
	one := forgeWorld{t, dir, "one"}
	smallBase(t, base, filepath.Join(dir, "base.tar"))
	one.assay(0, "image", "import", filepath.Join(dir, "base.tar"), "--name", "local/small:1")
	if err := os.CopyFS(filepath.Join(dir, "sums"), os.DirFS("testdata/sums")); err != nil {
		t.Fatal(err)
	}
	one.assay(0, "repo", "setup", filepath.Join(dir, "sums"), "-o", filepath.Join(dir, "env"), "--image", "local/small:1", "--runs", "1", "--no-coverage",
		"--test", "python3 -m unittest discover -s tests -t .")

	reg := httptest.NewServer(goreg.New(goreg.Logger(log.New(io.Discard, "", 0))))
	defer reg.Close()
	host := strings.TrimPrefix(reg.URL, "http://")
	mix, tasks := "mutate=1,invert=2", 3
	if os.Getenv("ASSAY_GRAMMARS") == "" {
		mix, tasks = "invert=2", 2
		t.Log("ASSAY_GRAMMARS names no grammars: no mutants")
	}
	set := filepath.Join(dir, "set")
	one.assay(0, "forge", "all", filepath.Join(dir, "env"), "-o", set, "--mix", mix, "--canaries", "0", "--push", host+"/sums:1")

	two := forgeWorld{t, dir, "two"} // a machine that has the set alone
	two.oracleAndNop(set, tasks)
	layouts, err := filepath.Glob(filepath.Join(set, ".forge", "images", "*", "index.json"))
	if err != nil || len(layouts) != 1 {
		t.Fatalf("layouts %q, %v", layouts, err)
	}
	one.inDocker(set, filepath.Dir(layouts[0]), tasks)

	if err := os.RemoveAll(filepath.Dir(layouts[0])); err != nil {
		t.Fatal(err)
	}
	three := forgeWorld{t, dir, "three"} // and one that has the set without its image
	three.oracleAndNop(set, tasks)
	if got := three.assay(0, "image", "list"); !strings.Contains(got, host+"/sums@sha256:") && !strings.Contains(got, "forge/sums:") {
		t.Errorf("images: %s", got)
	}
}

// inDocker builds each task of a set in the engine.
func (w forgeWorld) inDocker(set, layout string, want int) {
	load := exec.CommandContext(w.Context(), "/bin/sh", "-c", `tar -C "$0" -c . | docker load`, layout)
	said, err := load.CombinedOutput()
	if err != nil {
		w.Fatalf("docker load: %v\n%s", err, said)
	}
	_, healthy, ok := strings.Cut(strings.TrimSpace(string(said)), "Loaded image: ")
	if !ok {
		w.Fatalf("docker load said %s", said)
	}
	defer w.docker("rmi", "-f", healthy)
	dirs, err := filepath.Glob(filepath.Join(set, "*", "task.toml"))
	if err != nil || len(dirs) != want {
		w.Fatalf("%q, %v", dirs, err)
	}
	for i, d := range dirs {
		d = filepath.Dir(d)
		tag := fmt.Sprintf("assay-forge-test:%d-%d", os.Getpid(), i)
		w.docker("build", "-q", "-t", tag, filepath.Join(d, "environment"))
		w.sameTree(d, tag)
		for gold, want := range map[bool]string{true: "1", false: "0"} {
			script := `mkdir -p /logs/verifier; sh /tests/test.sh >/logs/verifier/out 2>&1; cat /logs/verifier/reward.txt`
			if gold {
				script = "sh /solution/solve.sh && { " + script + "; }"
			}
			c := w.docker("create", "--network", "none", tag, "sh", "-c", script)
			w.docker("cp", filepath.Join(d, "tests"), c+":/tests")
			if gold {
				w.docker("cp", filepath.Join(d, "solution"), c+":/solution")
			}
			if got := w.docker("start", "-a", c); got != want {
				w.Errorf("%s, gold %v: reward %q, want %s", d, gold, got, want)
			}
			w.docker("rm", "-f", c)
		}
		w.docker("rmi", "-f", tag)
	}
}

// sameTree compares what the engine built of a task with what assay does.
func (w forgeWorld) sameTree(task, tag string) {
	w.Helper()
	c := w.docker("create", "--network", "none", tag, "sh")
	defer w.docker("rm", "-f", c)
	tarball := filepath.Join(w.dir, "built.tar")
	w.docker("export", "-o", tarball, c)
	name := "built/" + strings.ToLower(filepath.Base(task))
	w.assay(0, "image", "import", tarball, "--name", name+":docker")
	w.assay(0, "image", "build", filepath.Join(task, "environment"), "-t", name+":assay", "--progress", "quiet")
	st, err := image.Open(image.HostPath(filepath.Join(w.dir, w.store)), image.Options{})
	if err != nil {
		w.Fatal(err)
	}
	defer st.Close()
	var views [2]*image.View
	for i, of := range []string{":assay", ":docker"} {
		im, err := st.Resolve(name + of)
		if err != nil {
			w.Fatal(err)
		}
		if views[i], err = st.View(im.Layers); err != nil {
			w.Fatal(err)
		}
	}
	roots := []string{"app", "bin", "etc", "lib", "lib64", "opt", "root", "srv", "tmp", "usr", "var", "home"}
	bad, err := forge.Differ(views[0], views[1], roots, false, 50)
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range bad {
		switch p { // the engine's own files
		case "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab":
			continue
		}
		w.Errorf("%s: assay and the engine differ in %s", task, p)
	}
	files := 0
	err = views[0].Walk("app", func(e image.Entry) error {
		if e.Type != image.TypeFile {
			return nil
		}
		files++
		a, err := views[0].ModTime(e.Path)
		if err != nil {
			return err
		}
		b, err := views[1].ModTime(e.Path)
		if d := a.Sub(b); d < 0 || d >= time.Second { // the engine's tar has whole seconds
			w.Errorf("%s: %s has the time %v here, %v in the engine", task, e.Path, a, b)
		}
		return err
	})
	if err != nil || files < 5 {
		w.Errorf("%s: %d files below /app, %v", task, files, err)
	}
}

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// Options shape one bootstrap. Store, Backend, Host, Cache and Distro are
// mandatory.
type Options struct {
	Store    *image.Store
	Backend  sandbox.Backend
	Host     image.Image // the image "host", where debootstrap unpacks
	Cache    string      // directory for packages, kept; absolute
	Distro   string      // "debian", "ubuntu"
	Suite    string      // empty: the distribution's current stable one
	Variant  string      // empty: "minbase"
	Include  []string    // more packages
	Mirror   string      // URL; empty: the distribution's public one
	Name     string      // of the image; empty: DISTRO:SUITE
	Progress io.Writer   // nil: nowhere
	UID      sandbox.UIDMode
	Now      func() time.Time // nil: time.Now
	// Through is where packages come from in place of Mirror, which is what the
	// image's own apt will use: this machine's mirror of it. Empty: Mirror.
	Through string
}

// Record says what an image was made of.
type Record struct {
	Distro   string    `json:"distro"`
	Suite    string    `json:"suite"`
	Variant  string    `json:"variant"`
	Mirror   string    `json:"mirror"` // without credentials
	Made     time.Time `json:"made"`
	Packages []string  `json:"packages"` // NAME=VERSION, in order
}

// Suites are the ones taken when none is asked for.
func defaultSuite(distro string) string {
	if distro == "ubuntu" {
		return "noble"
	}
	return "bookworm"
}

func publicMirror(distro string) string {
	if distro == "ubuntu" {
		return "http://archive.ubuntu.com/ubuntu"
	}
	return "http://deb.debian.org/debian"
}

// PublicMirror is the archive of a distribution that an image uses unless it is
// told otherwise.
func PublicMirror(distro string) string { return publicMirror(distro) }

func (o *Options) settle() error {
	if o.Distro != "debian" && o.Distro != "ubuntu" {
		return fmt.Errorf("distribution %q: only debian and ubuntu are made", o.Distro)
	}
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&o.Suite, defaultSuite(o.Distro))
	def(&o.Variant, "minbase")
	def(&o.Mirror, publicMirror(o.Distro))
	def(&o.Through, o.Mirror)
	def(&o.Name, o.Distro+":"+o.Suite)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	// These become arguments and parts of shell scripts.
	for _, c := range []struct{ what, value, pattern string }{
		{"suite", o.Suite, `^[a-z][a-z0-9.-]{0,40}$`},
		{"variant", o.Variant, `^(minbase|buildd|-)$`},
		{"mirror", o.Mirror, `^https?://[A-Za-z0-9@:/._~%+\[\]-]{1,300}$`},
		{"mirror", o.Through, `^https?://[A-Za-z0-9@:/._~%+\[\]-]{1,300}$`},
	} {
		if !regexp.MustCompile(c.pattern).MatchString(c.value) {
			return fmt.Errorf("%s %q does not match %s", c.what, c.value, c.pattern)
		}
	}
	for _, p := range o.Include {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9.+:-]{0,100}$`).MatchString(p) {
			return fmt.Errorf("package %q is no name of a package", p)
		}
	}
	return nil
}

// Make makes the image and names it. A machine without debootstrap is a
// *doctor.Refusal.
func Make(ctx context.Context, o Options) (image.Image, Record, error) {
	if err := o.settle(); err != nil {
		return image.Image{}, Record{}, fmt.Errorf("bootstrap: %w", err)
	}
	im, rec, err := make1(ctx, o)
	if err != nil {
		return image.Image{}, Record{}, fmt.Errorf("bootstrap %s %s: %w", o.Distro, o.Suite, err)
	}
	return im, rec, nil
}

func make1(ctx context.Context, o Options) (image.Image, Record, error) {
	// What a killed process leaves there goes when the store is opened next.
	work, err := o.Store.Private()
	if err != nil {
		return image.Image{}, Record{}, err
	}
	defer work.Close()
	debs, err := o.download(ctx, work)
	if err != nil {
		return image.Image{}, Record{}, err
	}
	tmp := o.Store.Temporary()
	defer tmp.Close()
	bare, err := o.unpack(ctx, debs, tmp)
	if err != nil {
		return image.Image{}, Record{}, fmt.Errorf("unpack: %w", err)
	}
	layer, rec, err := o.configure(ctx, bare)
	if err != nil {
		return image.Image{}, Record{}, fmt.Errorf("configure: %w", err)
	}
	im := image.New(o.Name, []image.LayerID{layer}, nil, image.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Cmd: []string{"bash"},
		Labels: map[string]string{
			"assay.bootstrap.suite": rec.Distro + " " + rec.Suite, "assay.bootstrap.variant": rec.Variant,
			"assay.bootstrap.mirror": rec.Mirror, "assay.bootstrap.made": rec.Made.Format(time.RFC3339),
			"assay.bootstrap.packages": strings.Join(rec.Packages, " "),
		},
	})
	return im, rec, o.Store.Put(im)
}

// find looks for debootstrap also where an ordinary user's PATH does not lead.
func find() (string, error) {
	for _, p := range []string{"debootstrap", "/usr/sbin/debootstrap", "/sbin/debootstrap"} {
		if path, err := exec.LookPath(p); err == nil {
			return path, nil
		}
	}
	return "", &doctor.Refusal{Finding: doctor.Finding{
		Name: "debootstrap", Detail: "not in PATH, nor in /usr/sbin",
		Means:  "no Debian or Ubuntu base can be made here",
		Remedy: "install the package debootstrap, or import an image with 'assay image import'",
	}}
}

// download fetches the index and the packages into one archive in work; those
// that are in the cache already are not fetched again.
func (o *Options) download(ctx context.Context, work *image.Private) (string, error) {
	tool, err := find()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(o.Cache, o.Distro)
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("download: %w", err)
	}
	debs := string(work.Path("debs.tar.gz"))
	args := append(o.args(), "--cache-dir="+cache, "--make-tarball="+debs, o.Suite, string(work.Path("tree")), strings.TrimRight(o.Through, "/"))
	cmd := exec.CommandContext(ctx, tool, args...)
	last := &tail{w: o.Progress}
	cmd.Stdout, cmd.Stderr = last, last
	cmd.WaitDelay = 5 * time.Second // a child of the script may hold the pipe
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return "", fmt.Errorf("download: %s: %w; packages that came are kept in %s; its last output:\n%s", tool, err, cache, last.last)
	}
	return debs, nil
}

func (o *Options) args() []string {
	args := []string{"--variant=" + o.Variant}
	if len(o.Include) > 0 {
		args = append(args, "--include="+strings.Join(o.Include, ","))
	}
	return args
}

const (
	diskBytes = 8 << 30
	debsAt    = "/bootstrap/debs.tar.gz"
	target    = "/bootstrap/tree"
)

// unpackScript runs on the image "host". Device nodes cannot be made by an
// ordinary user and are not wanted: every sandbox has a /dev of its own.
const unpackScript = `set -e
mkdir -p /bootstrap/bin
printf '#!/bin/sh\nexit 0\n' >/bootstrap/bin/mknod
chmod 755 /bootstrap/bin/mknod
PATH=/bootstrap/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH TAR_OPTIONS=--no-same-owner
debootstrap --foreign --unpack-tarball=` + debsAt + ` "$@" || { tail -n 30 ` + target + `/debootstrap/debootstrap.log; exit 1; }
rm -rf ` + target + `/dev
mkdir ` + target + `/dev
`

func (o *Options) unpack(ctx context.Context, debs string, tmp *image.Temporary) (id image.LayerID, err error) {
	sb, err := o.Backend.Create(ctx, sandbox.Spec{Image: o.Host, UID: o.UID, Limits: sandbox.Limits{DiskBytes: diskBytes}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sb.Close()) }()
	if err := put(ctx, sb, debs); err != nil {
		return "", err
	}
	script := unpackScript
	if o.UID == sandbox.UIDSub || o.UID == sandbox.UIDRoot { // dpkg leaves the owner of a directory that is there
		script = strings.Replace(script, "--no-same-owner", "--numeric-owner", 1)
	}
	args := append([]string{"/bin/sh", "-c", script, "sh"}, o.args()...)
	if _, err := o.do(ctx, sb, append(args, o.Suite, target, strings.TrimRight(o.Mirror, "/"))); err != nil {
		return "", err
	}
	return layer(ctx, sb, target, tmp)
}

// secondScript runs on the unpacked tree. What debootstrap leaves for itself
// goes, and apt's indexes with it, as in the distributions' own images.
const secondScript = `set -e
mkdir -p /debootstrap/bin
printf '#!/bin/sh\nexit 0\n' >/debootstrap/bin/mknod
chmod 755 /debootstrap/bin/mknod
: >/debootstrap/debootstrap.log
export PATH=/debootstrap/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C
/debootstrap/debootstrap --second-stage || { tail -n 40 /debootstrap/debootstrap.log; exit 1; }
rm -rf /debootstrap /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/bootstrap.log /var/log/dpkg.log /var/log/alternatives.log
mkdir -p /etc/apt
cat >/etc/apt/sources.list
`

func (o *Options) configure(ctx context.Context, bare image.LayerID) (id image.LayerID, rec Record, err error) {
	sb, err := o.Backend.Create(ctx, sandbox.Spec{Image: image.New("", []image.LayerID{bare}, nil, image.Config{}), UID: o.UID,
		Limits: sandbox.Limits{DiskBytes: diskBytes}})
	if err != nil {
		return "", rec, err
	}
	defer func() { err = errors.Join(err, sb.Close()) }()
	if _, err := o.feed(ctx, sb, []string{"/bin/sh", "-c", secondScript}, strings.NewReader(o.sources())); err != nil {
		return "", rec, err
	}
	list, err := o.do(ctx, sb, []string{"/usr/bin/dpkg-query", "-W", "-f", "${Status}\t${Package}=${Version}\n"})
	if err != nil {
		return "", rec, err
	}
	rec = Record{Distro: o.Distro, Suite: o.Suite, Variant: o.Variant, Mirror: withoutUser(o.Mirror), Made: o.Now().UTC().Truncate(time.Second)}
	for l := range strings.Lines(string(list)) {
		status, name, _ := strings.Cut(strings.TrimSpace(l), "\t")
		if status != "install ok installed" {
			return "", rec, fmt.Errorf("package %s is %q", name, status)
		}
		rec.Packages = append(rec.Packages, name)
	}
	id, err = layer(ctx, sb, "/", o.Store)
	return id, rec, err
}

// sources are the lines of the image's sources.list: the suite with its
// updates where the archive is the public one, the suite alone elsewhere.
func (o *Options) sources() string {
	m := strings.TrimRight(o.Mirror, "/")
	if m != publicMirror(o.Distro) || o.Suite == "sid" || o.Suite == "unstable" || o.Suite == "testing" {
		return fmt.Sprintf("deb %s %s main\n", m, o.Suite)
	}
	if o.Distro == "ubuntu" {
		return fmt.Sprintf("deb %[1]s %[2]s main universe\ndeb %[1]s %[2]s-updates main universe\ndeb http://security.ubuntu.com/ubuntu %[2]s-security main universe\n", m, o.Suite)
	}
	return fmt.Sprintf("deb %[1]s %[2]s main\ndeb %[1]s %[2]s-updates main\ndeb http://deb.debian.org/debian-security %[2]s-security main\n", m, o.Suite)
}

func withoutUser(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}

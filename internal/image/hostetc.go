package image

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"
)

// generated adds what every root file system has, with nothing of this machine
// in it.
func (h *hostReader) generated() error {
	shell := "/bin/sh"
	if fi, err := h.root.Stat("usr/bin/bash"); err == nil && fi.Mode().IsRegular() {
		shell = "/bin/bash"
	}
	for _, d := range []struct {
		path string
		mode uint32
	}{
		{"root", 0o700}, {"home", 0o755}, {"tmp", 0o1777}, {"run", 0o755}, {"proc", 0o555}, {"sys", 0o555}, {"dev", 0o755},
		{"opt", 0o755}, {"mnt", 0o755}, {"srv", 0o755}, {"etc", 0o755}, {"etc/alternatives", 0o755},
		{"var", 0o755}, {"var/tmp", 0o1777}, {"var/lib", 0o755}, {"var/log", 0o755}, {"var/cache", 0o755},
	} {
		h.add(Entry{Path: d.path, Type: TypeDir, Mode: d.mode}, nil)
	}
	for _, f := range [][2]string{
		{"etc/passwd", "root:x:0:0:root:/root:" + shell + "\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		{"etc/group", "root:x:0:\ntty:x:5:\nusers:x:100:\nnogroup:x:65534:\n"},
		{"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 assay\n"},
		{"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n" +
			"networks: files\nprotocols: files\nservices: files\n"},
		{"etc/hostname", "assay\n"},
		{"etc/resolv.conf", ""},
		{"etc/shells", "/bin/sh\n/bin/bash\n"},
		{"etc/timezone", "Etc/UTC\n"},
	} {
		h.add(Entry{Path: f[0], Type: TypeFile, Mode: 0o644}, []byte(f[1]))
	}
	for _, l := range [][2]string{{"var/run", "/run"}, {"etc/mtab", "/proc/mounts"}, {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"}} {
		h.add(Entry{Path: l[0], Type: TypeSymlink, Link: l[1]}, nil)
	}
	return nil
}

// etcAllowed are the files and directories of /etc that tools below /usr look
// for and that hold no secrets where they are readable for everyone.
// Configuration that is known to hold tokens (npmrc, pip.conf, gitconfig,
// maven, environment, apt) is not among them.
func etcAllowed() []string {
	return []string{
		"os-release", "debian_version", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
		"mime.types", "protocols", "services", "ssl/openssl.cnf", "ssl/certs/ca-certificates.crt",
		"pki/tls/openssl.cnf", "pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"crypto-policies/back-ends/opensslcnf.config",
		"java-*-openjdk", "java/java-*-openjdk", "python3", "python3.*", "perl", "fonts", "terminfo",
	}
}

const (
	maxEtcFile  = 2 << 20
	maxEtcFiles = 2000
)

func (h *hostReader) copied() error {
	left := maxEtcFiles
	for _, pattern := range etcAllowed() {
		found, err := fs.Glob(h.root.FS(), "etc/"+pattern)
		if err != nil {
			return err
		}
		for _, p := range found {
			h.copyEtc(p, &left)
		}
	}
	return nil
}

// copyEtc copies what everybody can read: files, directories, and links that
// lead into /usr or stay where they are. Anything else is left out, and so is
// what cannot be read.
func (h *hostReader) copyEtc(p string, left *int) {
	fi, err := h.root.Lstat(p)
	if err != nil || *left == 0 {
		return
	}
	*left--
	switch {
	case fi.Mode().Type() == fs.ModeSymlink:
		h.copyLink(p)
	case fi.IsDir() && fi.Mode().Perm()&0o005 == 0o005:
		names, err := fs.ReadDir(h.root.FS(), p)
		if err != nil {
			return
		}
		h.add(Entry{Path: p, Type: TypeDir, Mode: 0o755}, nil)
		for _, n := range names {
			h.copyEtc(p+"/"+n.Name(), left)
		}
	case fi.Mode().IsRegular() && fi.Mode().Perm()&0o004 != 0 && fi.Size() <= maxEtcFile:
		f, err := openRegular(h.root, p, fi)
		if err != nil {
			return
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxEtcFile))
		if err == nil && !bytes.Contains(b, []byte("PRIVATE KEY")) {
			h.add(Entry{Path: p, Type: TypeFile, Mode: modeOf(fi.Mode()) & 0o755}, b)
		}
	}
}

// copyLink keeps a link whose target is in the image anyway. One to elsewhere
// in /etc is kept too: what it leads to is there only if it is allowed itself.
func (h *hostReader) copyLink(p string) {
	to, err := h.root.Readlink(p)
	if err != nil {
		return
	}
	at := clean(to)
	if !path.IsAbs(to) {
		at = clean(path.Join(path.Dir(p), to))
	}
	known := under(at, "usr") || under(at, "etc")
	for _, b := range h.binds {
		known = known || under(at, clean(string(b.Target)))
	}
	if known {
		h.add(Entry{Path: p, Type: TypeSymlink, Link: to}, nil)
	}
}

func (h *hostReader) alternatives() error {
	names, err := fs.ReadDir(h.root.FS(), "etc/alternatives")
	if err != nil {
		return nil // no such mechanism here
	}
	for _, n := range names {
		// Manual pages are most of them, and nobody's tool.
		if n.Type() == fs.ModeSymlink && !strings.HasSuffix(n.Name(), ".gz") {
			h.copyLink("etc/alternatives/" + n.Name())
		}
	}
	return nil
}

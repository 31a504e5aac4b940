package external

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"assay/internal/image"
)

// patchLoader makes a copy of glibc's loader that knows the layer alone. What
// it has built in is overwritten by something no longer:
//
//   - the first of its own directories becomes the layer's, the others lead
//     nowhere, so that no library of the task's image meets another C library;
//   - the cache of the task's image is not read;
//   - the list of libraries to load before all others is the layer's. It names
//     the C library's own: an image may set LD_LIBRARY_PATH, which a loader
//     obeys before its own directories, but not for what is loaded already.
//
// Environment variables would do the same and reach every command that the
// agent starts; starting a program through its loader would hide from the
// program where it lies.
func patchLoader(b []byte, place image.Path) ([]byte, error) {
	b = bytes.Clone(b)
	dirs := systemDirs(b)
	own := string(place) + "/" + libDir + "/"
	fits := false
	for _, d := range dirs {
		new := own
		if len(own) > len(d) {
			new = "/dev/"[:min(5, len(d))]
		}
		fits = fits || new == own
		v, err := fill(new, len(d), '/', "a directory of the loader")
		if err != nil {
			return nil, err
		}
		replace(b, d, v)
	}
	if !fits {
		return nil, fmt.Errorf("the C library's loader has room for no directory as long as %s in %q; install upon an image that is based on Debian or Ubuntu: --image debian:bookworm", own, dirs)
	}
	if !replace(b, "/etc/ld.so.cache", make([]byte, len("/etc/ld.so.cache"))) {
		return nil, fmt.Errorf("the C library's loader does not name /etc/ld.so.cache")
	}
	v, err := fill(preloadPath(place), len("/etc/ld.so.preload"), 0, "the loader's list of libraries")
	if err != nil {
		return nil, err
	}
	if !replace(b, "/etc/ld.so.preload", v) {
		return nil, fmt.Errorf("the C library's loader does not name /etc/ld.so.preload")
	}
	return b, nil
}

// systemDirs are the directories that the loader has built in, each once: text
// that ends in a slash, between two NULs.
func systemDirs(b []byte) []string {
	var all []string
	seen := map[string]bool{}
	for _, s := range bytes.Split(b, []byte{0}) {
		d := string(s)
		if !seen[d] && systemDirRE.MatchString(d) {
			seen[d] = true
			all = append(all, d)
		}
	}
	return all
}

var systemDirRE = regexp.MustCompile(`^(/usr)?/lib(32|64|x32)?/([a-z0-9_]+-linux-gnu[a-z0-9]*/)?$`)

// replace overwrites every old that stands alone between two NULs.
func replace(b []byte, old string, new []byte) bool {
	found := false
	want := append([]byte(old), 0)
	for i := 0; ; {
		j := bytes.Index(b[i:], want)
		if j < 0 {
			return found
		}
		i += j
		if i > 0 && b[i-1] == 0 {
			copy(b[i:], new)
			found = true
		}
		i++
	}
}

// alwaysAlong are libraries that programs load by name while they run, as far
// as the C library has them.
func alwaysAlong() []string {
	return []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libutil.so.1",
		"libnss_files.so.2", "libnss_dns.so.2"}
}

// core are the libraries that must not be mixed with those of another image.
func core() []string {
	return []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"}
}

// preloads is the text of the loader's list.
func preloads(place image.Path, libs []string) []byte {
	var t strings.Builder
	for _, want := range core() {
		for _, l := range libs {
			if l == want {
				fmt.Fprintf(&t, "%s/%s/%s\n", place, libDir, l)
			}
		}
	}
	return []byte(t.String())
}

var glibcRE = regexp.MustCompile(`GNU C Library [^\n]*version ([0-9]+\.[0-9]+)`)

// libcVersion reads the version that glibc prints of itself.
func libcVersion(libc []byte) string {
	if m := glibcRE.FindSubmatch(libc); m != nil {
		return "glibc " + string(m[1])
	}
	return "glibc"
}

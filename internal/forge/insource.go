package forge

import (
	"bytes"
	"path"
	"strings"

	"assay/internal/image"
)

// testsInSource are the sources of the healthy image, relative to its working
// directory, that hold tests beside the product, as Rust's unit tests are. Where
// an environment is what is broken they are test files like others; a bug may
// stand in them.
func testsInSource(v *image.View, workdir string, isTest map[string]bool) (map[string]bool, error) {
	found := map[string]bool{}
	err := v.Walk(workdir, func(e image.Entry) error {
		rel, below := strings.CutPrefix("/"+e.Path, workdir+"/")
		if !below || e.Type != image.TypeFile || path.Ext(rel) != ".rs" || isTest[rel] || foreign(rel) || strings.HasPrefix(rel, "target/") {
			return nil
		}
		b, err := v.ReadFile("/"+e.Path, maxCanaryFile)
		if err == nil && bytes.Contains(b, []byte("#[test]")) {
			found[rel] = true
		}
		return nil // what is too large, or cannot be read, has none
	})
	return found, err
}

// testsFor are the files that are put back before a candidate is graded, and
// that its agent cannot write.
func (f *forge) testsFor(c Candidate) []string {
	if c.Grade != GradeState {
		return f.testFiles
	}
	all := append([]string(nil), f.testFiles...)
	for rel := range f.inSource {
		all = append(all, rel)
	}
	return all
}

// moduleFile is the file of cargo's test src/lib.rs[crate] date::test::leap: the
// deepest module that has one. Empty: it is none of cargo's, or there is none.
func moduleFile(id string, exists func(rel string) bool) string {
	target, name, ok := strings.Cut(id, "[")
	_, name, two := strings.Cut(name, "] ")
	if !ok || !two || path.Ext(target) != ".rs" {
		return ""
	}
	modules := strings.Split(name, "::")
	for n := len(modules) - 1; n > 0; n-- {
		at := path.Join(path.Dir(target), path.Join(modules[:n]...))
		for _, file := range []string{at + ".rs", at + "/mod.rs"} {
			if exists(file) {
				return file
			}
		}
	}
	if exists(target) {
		return target
	}
	return ""
}

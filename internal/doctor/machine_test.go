package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refuses checks that a finding says all that a person needs.
func refuses(t *testing.T, f Finding, detail, remedy string) {
	t.Helper()
	if f.OK || f.Means == "" || !strings.Contains(f.Detail, detail) || !strings.Contains(f.Remedy, remedy) {
		t.Errorf("%+v, want %q and the remedy %q", f, detail, remedy)
	}
}

func TestSpace(t *testing.T) {
	dir := t.TempDir()
	if f := Space(filepath.Join(dir, "not", "yet"), 1, 1); !f.OK || !strings.Contains(f.Detail, "GiB free") {
		t.Errorf("%+v", f)
	}
	refuses(t, Space(dir, 1<<62, 1), "GiB free", "assay image gc")
	if f := Space(dir, 1, 0); strings.Contains(f.Detail, "files") { // one that counts them
		refuses(t, Space(dir, 1, 1<<62), "files", "inodes")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, Space(file+"/below", 1, 1), "not a directory", "--store")
}

func TestKVM(t *testing.T) {
	root := t.TempDir()
	refuses(t, KVM(root), "not there", "kvm_intel")
	if err := os.MkdirAll(filepath.Join(root, "dev", "kvm"), 0o755); err != nil {
		t.Fatal(err)
	}
	refuses(t, KVM(root), "is a directory", "does not work")
	if err := os.Remove(filepath.Join(root, "dev", "kvm")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "dev", "kvm"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := KVM(root); !f.OK {
		t.Errorf("%+v", f)
	}
	if os.Geteuid() == 0 {
		return // root may open it whatever its mode
	}
	if err := os.Chmod(filepath.Join(root, "dev", "kvm"), 0); err != nil {
		t.Fatal(err)
	}
	refuses(t, KVM(root), "permission denied", "usermod -aG kvm")
}

func TestTools(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, f := range Tools(t.Context()) {
		refuses(t, f, "not in PATH", "install")
	}
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\necho broken >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	refuses(t, Tools(t.Context())[0], "exit status 3 broken", "package git")
}

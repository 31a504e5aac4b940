package mirrors

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the goldens anew")

// machine makes a host of a txtar archive: files, and variables in its
// comment. CERT:NAME in a file becomes a certificate of that name.
func machine(t testing.TB, file string) (Host, *txtar.Archive) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root, env := t.TempDir(), map[string]string{}
	for l := range strings.Lines(string(a.Comment)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(l), "="); ok && !strings.HasPrefix(l, "#") {
			env[k] = v
		}
	}
	for _, f := range a.Files {
		if f.Name == "want" {
			continue
		}
		data := f.Data
		for l := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(l), "CERT:"); ok {
				data = bytes.ReplaceAll(data, []byte(l), authority(t, name))
			}
		}
		p := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Root: root, Home: "/home/dev", Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}, a
}

func authority(t testing.TB, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(4e9, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// show is everything but bytes that differ from run to run.
func show(s *Settings) string {
	var b strings.Builder
	for _, m := range s.Mirrors {
		fmt.Fprintf(&b, "mirror %s %s:%d %s (%s) secret=%v\n", m.Manager, m.Host, m.Port, m.URL, m.From, m.Secret)
	}
	for _, c := range s.trust.certs {
		fmt.Fprintf(&b, "trust %s\n", c.Subject.CommonName)
	}
	fmt.Fprintf(&b, "proxy %+v\nresolvers %v\n", s.Proxy, s.Resolvers)
	for _, m := range slices.Sorted(maps.Keys(s.Own)) {
		fmt.Fprintf(&b, "own proxy of %s %+v\n", m, s.Own[m])
	}
	for _, l := range s.LeftOut {
		fmt.Fprintf(&b, "left out %s\n", l)
	}
	in := s.Inherit("127.0.0.1", "3128")
	for _, e := range in.Env {
		fmt.Fprintf(&b, "env %s\n", e)
	}
	for _, m := range in.Mounts {
		fmt.Fprintf(&b, "mount %q at %s\n", m.Name, m.Target)
	}
	for _, f := range in.Files {
		if !bytes.Contains(f.Data, []byte("BEGIN CERT")) && !strings.HasSuffix(f.Name, ".jks") && !strings.HasSuffix(f.Name, ".properties") {
			fmt.Fprintf(&b, "file %s\n%s", f.Name, f.Data)
		}
	}
	for _, i := range in.Items {
		j, _ := json.Marshal(i)
		fmt.Fprintf(&b, "item %s\n", j)
	}
	return b.String()
}

// Made-up machines, read and compared with what is written beside them.
func TestMachines(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no machine to read")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			h, a := machine(t, file)
			s, err := Read(h)
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), h.Root, "") + "\n"
			} else {
				got = show(s)
			}
			want := ""
			for i := range a.Files {
				if a.Files[i].Name == "want" {
					want = string(a.Files[i].Data)
					a.Files[i].Data = []byte(got)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever is recorded or listed holds no credential: every one in the made-up
// machines has "hunter2" in it.
func TestNoCredentialIsRecorded(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	seen := false
	for _, file := range files {
		h, _ := machine(t, file)
		s, err := Read(h)
		if err != nil {
			continue
		}
		in := s.Inherit("127.0.0.1", "3128")
		j, err := json.Marshal([]any{s.Mirrors, s.LeftOut, in.Items, s.Targets(), s.Proxy.Shown()})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(j, []byte("hunter2")) {
			t.Errorf("%s: a credential in %s", file, j)
		}
		for _, f := range in.Files {
			seen = seen || bytes.Contains(f.Data, []byte("hunter2"))
		}
	}
	if !seen {
		t.Error("no made-up machine has a credential: the test proves nothing")
	}
}

// Java itself reads the key store.
func TestKeyStore(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("keytool is not in PATH")
	}
	var tr trust
	tr.add(append(authority(t, "one"), authority(t, "two")...), "here")
	p := filepath.Join(t.TempDir(), "trust.jks")
	if err := os.WriteFile(p, tr.jks(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(keytool, "-list", "-v", "-keystore", p, "-storepass", keystorePassword).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"contains 2 entries", "CN=one", "CN=two", "trustedCertEntry"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, err := exec.Command(keytool, "-list", "-keystore", p, "-storepass", "another").CombinedOutput(); err == nil {
		t.Errorf("the password is not checked: %s", out)
	}
}

func TestWrite(t *testing.T) {
	h, _ := machine(t, "testdata/company.txtar")
	s, err := Read(h)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := s.Inherit("127.0.0.1", "3128")
	if err := in.Write(dir, -1); err != nil {
		t.Fatal(err)
	}
	for _, f := range in.Files {
		got, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil || !bytes.Equal(got, f.Data) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	evil := &Inheritance{Files: []File{{Name: "../out", Data: []byte("x")}}}
	if err := evil.Write(dir, -1); err == nil {
		t.Error("wrote outside its directory")
	}
}

// Every parser ends, without a panic, on whatever a file holds.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range a.Files {
			f.Add(x.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root := t.TempDir()
		for _, p := range []string{"etc/apt/sources.list", "etc/apt/sources.list.d/a.sources", "etc/apt/apt.conf", "etc/pip.conf",
			"home/dev/.npmrc", "home/dev/.cargo/config.toml", "home/dev/.config/go/env", "home/dev/.m2/settings.xml", "home/dev/.gemrc",
			"etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"} {
			p = filepath.Join(root, p)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, data, 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := Read(Host{Root: root, Home: "/home/dev"})
			if err == nil {
				s.Inherit("127.0.0.1", "3128")
				s.Targets()
				s.AptRewrite(&url.URL{Scheme: "http", Host: "deb.debian.org", Path: "/debian/x"}, true)
			}
			os.Remove(p)
		}
	})
}

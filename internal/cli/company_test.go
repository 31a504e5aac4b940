package cli

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
)

// company is a repository server behind TLS, with an authority of its own, for
// packages of the test's own making: PyPI's simple index, npm's registry, a Go
// module proxy, git, and plain files.
type company struct {
	ca     []byte // PEM
	port   string
	mu     sync.Mutex
	served map[string]int // by first part of the path
	files  map[string][]byte
	git    http.Handler
}

const companyName = "mirror.corp.example"

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{served: map[string]int{}}
	c.files = c.packages(t)
	c.git = http.StripPrefix("/git/", http.FileServer(http.Dir(gitRepository(t))))
	c.serve(t)
	return c
}

func (c *company) serve(t *testing.T) {
	t.Helper()
	s := httptest.NewUnstartedServer(c)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{c.authority(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	_, c.port, _ = net.SplitHostPort(s.Listener.Addr().String())
}

func (c *company) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	part, _, _ := strings.Cut(r.URL.Path[1:], "/")
	user, pass, _ := r.BasicAuth()
	known := true
	switch part {
	case "pypi":
		known = user == "dev" && pass == "hunter2pip"
	case "apt":
		known = user == "dev" && pass == "hunter2apt"
	case "npm":
		known = r.Header.Get("Authorization") == "Bearer hunter2npm"
	}
	c.mu.Lock()
	c.served[part]++
	c.mu.Unlock()
	f, ok := c.files[r.URL.Path]
	switch {
	case !known:
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case part == "git":
		c.git.ServeHTTP(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		if strings.HasSuffix(r.URL.Path, "/") {
			w.Header().Set("Content-Type", "text/html")
		}
		w.Write(bytes.ReplaceAll(f, []byte("BASE"), []byte("https://"+r.Host)))
	}
}

// authority makes one and a certificate of it.
func (c *company) authority(t *testing.T) tls.Certificate {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Corp Root"}, NotBefore: begin, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1, 2, 3, 4}}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: companyName}, NotBefore: begin, NotAfter: end,
		DNSNames: []string{companyName, "localhost"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// packages are one of each kind, complete enough for its real installer.
func (c *company) packages(t *testing.T) map[string][]byte {
	t.Helper()
	wheel := zipped(t, [][2]string{
		{"corp_probe.py", "VALUE = 'from the company'\n"},
		{"corp_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: corp-probe\nVersion: 1.0\n"},
		{"corp_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"corp_probe-1.0.dist-info/RECORD", "corp_probe.py,,\ncorp_probe-1.0.dist-info/METADATA,,\ncorp_probe-1.0.dist-info/WHEEL,,\ncorp_probe-1.0.dist-info/RECORD,,\n"},
	})
	wheelSum := sha256.Sum256(wheel)
	tgz := tarred(t, [][2]string{
		{"package/package.json", `{"name":"corp-probe","version":"1.0.0","main":"index.js"}`},
		{"package/index.js", "module.exports = 'from the company'\n"},
	})
	tgzSum := sha1.Sum(tgz)
	packument, err := json.Marshal(map[string]any{"name": "corp-probe", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{"name": "corp-probe", "version": "1.0.0",
			"dist": map[string]string{"tarball": "BASE/npm/corp-probe/-/corp-probe-1.0.0.tgz", "shasum": hex.EncodeToString(tgzSum[:])}}}})
	if err != nil {
		t.Fatal(err)
	}
	const mod = "corp.example/probe@v1.0.0/"
	return map[string][]byte{
		"/pypi/simple/corp-probe/": []byte(`<html><body><a href="/pypi/files/corp_probe-1.0-py3-none-any.whl#sha256=` +
			hex.EncodeToString(wheelSum[:]) + `">corp_probe-1.0-py3-none-any.whl</a></body></html>`),
		"/pypi/files/corp_probe-1.0-py3-none-any.whl": wheel,
		"/npm/corp-probe":                        packument,
		"/npm/corp-probe/-/corp-probe-1.0.0.tgz": tgz,
		"/go/corp.example/probe/@v/list":         []byte("v1.0.0\n"),
		"/go/corp.example/probe/@v/v1.0.0.info":  []byte(`{"Version":"v1.0.0"}`),
		"/go/corp.example/probe/@v/v1.0.0.mod":   []byte("module corp.example/probe\n"),
		"/go/corp.example/probe/@v/v1.0.0.zip": zipped(t, [][2]string{{mod + "go.mod", "module corp.example/probe\n"},
			{mod + "probe.go", "package probe\n\nconst Value = \"from the company\"\n"}}),
		"/files/data": []byte("from the company\n"),
	}
}

func zipped(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		w, err := z.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, f[1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, f[1])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// gitRepository is a directory with probe.git, to be served as files; without
// git it is empty.
func gitRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := exec.LookPath("git"); err != nil {
		return dir
	}
	for _, line := range []string{
		"init -q work", "-C work -c user.name=dev -c user.email=dev@corp.example commit -q --allow-empty -m from-the-company",
		"clone -q --bare work probe.git", "-C probe.git update-server-info",
	} {
		c := exec.Command("git", strings.Fields(line)...)
		c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", line, err, out)
		}
	}
	return dir
}

// proxy is the company's way out: it knows the company's name, which nobody
// else does, and wants a password.
func (c *company) proxy(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.served["proxy"]++
		c.mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != companyName+":443" || r.Header.Get("Proxy-Authorization") == "" {
			http.Error(w, "not through here", http.StatusForbidden)
			return
		}
		out, err := net.Dial("tcp", "127.0.0.1:"+c.port)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer out.Close()
		in, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer in.Close()
		io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { io.Copy(out, buf); out.(*net.TCPConn).CloseWrite() })
		io.Copy(in, out)
		in.Close()
		both.Wait()
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http://", "http://dev:hunter2proxy@", 1)
}

// machine is a home whose package managers use the company's server at a base
// URL.
func (c *company) machine(t *testing.T, base string) (home string) {
	t.Helper()
	home = scratch(t)
	host := strings.TrimPrefix(base, "https://")
	for name, text := range map[string]string{
		"ca.pem":               string(c.ca),
		".config/pip/pip.conf": "[global]\nindex-url = https://dev:hunter2pip@" + host + "/pypi/simple\ncert = " + home + "/ca.pem\n",
		".npmrc":               "registry=" + base + "/npm/\n//" + host + "/npm/:_authToken=hunter2npm\n",
		".config/go/env":       "GOPROXY=" + base + "/go\nGONOSUMDB=corp.example\n",
	} {
		p := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// companySteps are RUNs for programs that this machine may have.
var companySteps = []struct {
	tool, run, sees string
	quick           bool
}{
	{"/usr/bin/pip3", "/usr/bin/python3 -m pip install -q --no-cache-dir --disable-pip-version-check --target /out corp-probe" +
		" && PYTHONPATH=/out /usr/bin/python3 -c 'import corp_probe; print(corp_probe.VALUE)'", "pypi", false},
	{"/usr/bin/npm", "mkdir -p /app && cd /app && npm install --silent --no-update-notifier corp-probe && node -p 'require(\"corp-probe\")'", "npm", false},
	{"/usr/local/go/bin/go", "mkdir -p /mod && cd /mod && export GOFLAGS=-mod=mod HOME=/root GOTOOLCHAIN=local && printf 'module x\\ngo 1.21\\nrequire corp.example/probe v1.0.0\\n' > go.mod" +
		" && /usr/local/go/bin/go mod download -x corp.example/probe && cat /root/go/pkg/mod/corp.example/probe@v1.0.0/probe.go", "go", true},
	{"/usr/bin/git", "git clone -q BASE/git/probe.git /clone && git -C /clone log --format=%s", "git", true},
}

// Builds on a machine whose packages all come from a company's server, with an
// authority and credentials of its own: by name through the company's proxy,
// which alone knows it, and as a server of this very machine.
func TestInheritMirrors(t *testing.T) {
	needSandbox(t)
	for _, how := range []string{"proxy", "localhost"} {
		t.Run(how, func(t *testing.T) {
			c := newCompany(t)
			base := "https://" + companyName
			env := map[string]string{}
			if how == "proxy" {
				env["HTTPS_PROXY"] = c.proxy(t)
			} else {
				base = "https://localhost:" + c.port
			}
			home := c.machine(t, base)
			env["HOME"], env["PATH"] = home, os.Getenv("PATH")
			dir := scratch(t)
			lines := []string{"FROM host", "ADD " + base + "/files/data /added"}
			for _, s := range companySteps {
				if _, err := os.Stat(s.tool); err == nil && (how == "proxy" || s.quick) {
					lines = append(lines, "RUN "+strings.ReplaceAll(s.run, "BASE", base))
				}
			}
			if len(lines) < 3 {
				t.Skip("hardly a package manager on this machine")
			}
			if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			build := func(args ...string) (string, int) {
				var out bytes.Buffer
				args = append([]string{"assay", "--store", filepath.Join(home, "store"), "image", "build"}, append(args, dir)...)
				code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok }})
				return out.String(), code
			}
			out, code := build()
			if code != exitFailed || !strings.Contains(out, "the allow-list of builds refused ") || !strings.Contains(out, "--inherit-mirrors") {
				t.Fatalf("without the machine's settings: exit %d\n%s", code, out)
			}
			record := filepath.Join(dir, "record.json")
			out, code = build("--inherit-mirrors", "-t", "corp", "--record", record)
			if code != 0 {
				t.Fatalf("exit %d\n%s", code, out)
			}
			if got, want := strings.Count(out, "from the company")+strings.Count(out, "from-the-company"), len(lines)-2; got < want {
				t.Errorf("%d of %d packages\n%s", got, want, out)
			}
			c.mu.Lock()
			for _, s := range companySteps {
				if _, err := os.Stat(s.tool); err == nil && c.served[s.sees] == 0 && (how == "proxy" || s.quick) {
					t.Errorf("%s asked the company for nothing", s.tool)
				}
			}
			if (how == "proxy") != (c.served["proxy"] > 0) {
				t.Errorf("the proxy was asked %d times", c.served["proxy"])
			}
			c.mu.Unlock()
			c.checkRecord(t, record, base)
			c.checkLayers(t, filepath.Join(home, "store"))
			// Neither key nor layer depends on where the packages came from.
			env["ASSAY_CONFIG"] = filepath.Join(dir, "config.toml")
			if err := os.WriteFile(env["ASSAY_CONFIG"], []byte("[build]\ninherit-mirrors = true\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{}, {"--no-inherit-mirrors"}} {
				again, code := build(append(args, "-t", "again")...)
				if code != 0 || strings.Contains(again, " 0 of ") || !strings.Contains(again, fmt.Sprintf("%d of %d steps", len(lines)-1, len(lines)-1)) {
					t.Errorf("again %q: exit %d\n%s", args, code, again)
				}
			}
			if how == "localhost" {
				if again, code := build("--no-cache"); code != 0 {
					t.Errorf("by the configuration alone: exit %d\n%s", code, again)
				}
			}
			if again, code := build("--network", "none", "--no-cache"); code != exitFailed {
				t.Errorf("without network: exit %d\n%s", code, again)
			}
			if left, _ := filepath.Glob("/dev/shm/assay-*/host/pip.conf"); len(left) > 0 {
				for _, f := range left {
					if b, _ := os.ReadFile(f); bytes.Contains(b, []byte("hunter2pip")) {
						t.Errorf("left behind: %s", f)
					}
				}
			}
		})
	}
}

// checkRecord: the record lists what was shown and reached, and no secret.
func (c *company) checkRecord(t *testing.T, file, base string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("hunter2")) {
		t.Errorf("a credential in the record:\n%s", b)
	}
	var r dockerfile.Record
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, i := range r.Inherited {
		listed[i.Kind+" "+i.Name] = true
	}
	for _, want := range []string{"file /dev/assay/ca-certificates.crt", "file /dev/assay/pip.conf", "file /dev/assay/npmrc", "env GOPROXY", "env SSL_CERT_FILE"} {
		if !listed[want] {
			t.Errorf("the record does not list %s: %v", want, r.Inherited)
		}
	}
	reached := false
	for _, h := range r.Reached {
		reached = reached || h.Connections > 0 && h.Received > 0 && strings.HasPrefix(strings.TrimPrefix(base, "https://"), h.Host)
	}
	if !reached || r.Network != "allowlist" || len(r.Allowed) == 0 {
		t.Errorf("network %s, allowed %v, reached %+v", r.Network, r.Allowed, r.Reached)
	}
}

// checkLayers: nothing of the machine's settings is in the image.
func (c *company) checkLayers(t *testing.T, dir string) {
	t.Helper()
	s, err := image.Open(image.HostPath(dir), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	im, err := s.Resolve("corp")
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Layers) < 3 {
		t.Fatalf("%d layers", len(im.Layers))
	}
	ca := bytes.Split(c.ca, []byte("\n"))[1]
	for _, id := range im.Layers[1:] {
		for e, err := range s.Entries(id) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(e.Path, ".cargo") || strings.HasPrefix(e.Path, "run/assay") || strings.HasPrefix(e.Path, "dev/") {
				t.Errorf("%s is in the image", e.Path)
			}
		}
		var tarball bytes.Buffer
		if err := s.ToTar(context.Background(), id, &tarball); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter2", string(ca)} {
			if i := bytes.Index(tarball.Bytes(), []byte(secret)); i >= 0 {
				t.Errorf("%q is in a layer: …%q…", secret, tarball.Bytes()[max(0, i-200):i+100])
			}
		}
	}
}

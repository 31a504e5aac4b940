package mirrors

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
)

// Dir is where a sandbox sees the inherited files. It is in /dev, which is no
// part of any tree: nothing is left of it in a layer, and no program that
// empties /run, /tmp or /var stumbles over it. And it is outside /etc: a file
// that is mounted upon /etc/ssl/certs/ca-certificates.crt cannot be replaced,
// and the package ca-certificates replaces it.
const Dir = "/dev/assay"

// Inheritance is what a sandbox needs to use this machine's settings.
type Inheritance struct {
	Files  []File
	Env    []string // KEY=value
	Mounts []Mount
	Items  []Item // for the build record, in order
}

// File is one file to make below a directory.
type File struct {
	Name string // relative, slash-separated
	Data []byte
}

// Mount shows one of the files, or all of them for the empty Name, at a path
// of the sandbox, read-only.
type Mount struct{ Name, Target string }

// Item is one line of a build record. It never holds a credential.
type Item struct {
	Kind   string `json:"kind"` // "file", "env", "host-side"
	Name   string `json:"name"` // path inside, variable, or what the host does
	For    string `json:"for"`  // "trust", "proxy" or a package manager
	From   string `json:"from"` // where this machine has it
	Value  string `json:"value,omitempty"`
	Secret bool   `json:"secret,omitempty"` // its value is not recorded
}

// Inherit says what a sandbox needs. The archives of apt are not in it: an
// image's own sources stay, and AptRewrite leads their requests.
// proxyHost and proxyPort are where programs
// inside find their way out, for those that do not read http_proxy; an empty
// host means that they need none.
func (s *Settings) Inherit(proxyHost, proxyPort string) *Inheritance {
	in := &Inheritance{Mounts: []Mount{{"", Dir}}}
	s.inheritTrust(in)
	s.inheritApt(in)
	s.inheritPip(in)
	s.inheritNpm(in)
	s.inheritCargo(in)
	s.inheritGo(in)
	s.inheritJava(in, proxyHost, proxyPort)
	s.inheritGem(in)
	if len(s.netrc.data) > 0 {
		in.file("netrc", s.netrc.data, "netrc", s.netrc.path, true)
		in.env("NETRC", Dir+"/netrc", "netrc", s.netrc.path, false)
	}
	if len(s.Resolvers) > 0 {
		in.host("resolver", "names are looked up by this machine", "/etc/resolv.conf", strings.Join(s.Resolvers, ", "))
	}
	for _, a := range []string{"http://deb.debian.org/debian", "http://deb.debian.org/debian-security", "http://archive.ubuntu.com/ubuntu",
		"http://ports.ubuntu.com/ubuntu-ports"} {
		if u, ok := serverURL(s.AptMirror(a)); ok {
			in.host("apt", "requests for "+a+" go to this machine's mirror", s.aptPlace(a), public(u))
		}
	}
	if p := s.Proxy.Shown(); p != "" {
		in.host("proxy", "connections go on through this machine's proxy", s.Proxy.From, p)
	}
	for _, manager := range slices.Sorted(maps.Keys(s.Own)) {
		if p := s.Own[manager].Shown(); p != "" {
			in.host("proxy", "connections to servers of "+manager+" go on through its own proxy", s.Own[manager].From, p)
		}
	}
	return in
}

// aptPlace is where this machine names its mirror of an archive.
func (s *Settings) aptPlace(archive string) string {
	for _, a := range s.apt.archives {
		if strings.TrimRight(a.url, "/") == s.AptMirror(archive) {
			return a.from
		}
	}
	return ""
}

func (in *Inheritance) file(name string, data []byte, manager, from string, secret bool) {
	in.Files = append(in.Files, File{name, data})
	in.Items = append(in.Items, Item{Kind: "file", Name: Dir + "/" + name, For: manager, From: from, Secret: secret})
}

func (in *Inheritance) env(name, value, manager, from string, secret bool) {
	in.Env = append(in.Env, name+"="+value)
	it := Item{Kind: "env", Name: name, For: manager, From: from, Value: value, Secret: secret}
	if secret {
		it.Value = ""
	}
	in.Items = append(in.Items, it)
}

func (in *Inheritance) host(manager, what, from, value string) {
	in.Items = append(in.Items, Item{Kind: "host-side", Name: what, For: manager, From: from, Value: value})
}

func (s *Settings) inheritTrust(in *Inheritance) {
	if len(s.trust.certs) == 0 {
		return
	}
	const name = "ca-certificates.crt"
	from := strings.Join(s.trust.from, ", ")
	in.file(name, s.trust.pem(), "trust", from, false)
	for _, v := range append(bundleVariables(), "PERL_LWP_SSL_CA_FILE", "DENO_CERT") {
		in.env(v, Dir+"/"+name, "trust", from, false)
	}
	// GNU's TLS library reads no variable: its programs are told one by one.
	in.file("wgetrc", []byte("ca_certificate = "+Dir+"/"+name+"\n"), "trust", from, false)
	in.env("WGETRC", Dir+"/wgetrc", "trust", from, false)
}

// inheritApt brings what image sources behind TLS need; plain ones are led by
// AptRewrite.
func (s *Settings) inheritApt(in *Inheritance) {
	var conf strings.Builder
	var from []string
	if len(s.trust.certs) > 0 {
		conf.WriteString("Acquire::https::CaInfo \"" + Dir + "/ca-certificates.crt\";\n")
		from = append(from, s.trust.from...)
	}
	for _, o := range s.apt.options {
		if n := strings.ToLower(o.name); strings.HasSuffix(n, "::verify-peer") || strings.HasSuffix(n, "::verify-host") {
			conf.WriteString(o.name + " \"" + o.value + "\";\n")
			from = append(from, o.from)
		}
	}
	if len(s.apt.auth) > 0 {
		var auth []byte
		var places []string
		for _, a := range s.apt.auth {
			auth = append(append(auth, bytes.TrimRight(a.data, "\n")...), '\n')
			places = append(places, a.path)
		}
		in.file("apt-auth.conf", auth, "apt", strings.Join(places, ", "), true)
		conf.WriteString("Dir::Etc::netrc \"" + Dir + "/apt-auth.conf\";\n")
		from = append(from, places...)
	}
	if conf.Len() > 0 {
		in.file("apt.conf", []byte(conf.String()), "apt", strings.Join(from, ", "), false)
		in.env("APT_CONFIG", Dir+"/apt.conf", "apt", "", false)
	}
}

func (s *Settings) inheritPip(in *Inheritance) {
	from := strings.Join(s.pip.from, ", ")
	if conf := s.pip.conf(); conf != nil {
		in.file("pip.conf", conf, "pip", from, s.secret("pip"))
		in.env("PIP_CONFIG_FILE", Dir+"/pip.conf", "pip", from, false)
	}
	if len(s.pip.uv) == 0 && s.pip.index != "" { // uv does not read pip's files
		in.env("UV_DEFAULT_INDEX", s.pip.index, "uv", from, s.secret("pip"))
		if len(s.pip.extra) > 0 {
			in.env("UV_INDEX", strings.Join(s.pip.extra, " "), "uv", from, s.secret("pip"))
		}
	}
	for i, kv := range s.pip.uv {
		name, value, _ := strings.Cut(kv, "=")
		in.env(name, value, "uv", s.pip.uvFrom[i], strings.Contains(value, "@"))
	}
}

// secret reports whether a URL of the manager holds credentials.
func (s *Settings) secret(manager string) bool {
	for _, m := range s.Mirrors {
		if m.Manager == manager && m.Secret {
			return true
		}
	}
	return false
}

func (s *Settings) inheritNpm(in *Inheritance) {
	if len(s.npm.lines) == 0 {
		return
	}
	from := strings.Join(s.npm.from, ", ")
	// The weakest of npm's files: what a project says of itself stays stronger.
	in.file("npmrc", []byte(strings.Join(s.npm.lines, "\n")+"\n"), "npm", from, s.npm.secret || s.secret("npm"))
	in.env("npm_config_globalconfig", Dir+"/npmrc", "npm", from, false)
	if s.npm.registry != "" { // for yarn, pnpm, bun and corepack, which do not read that file
		for _, v := range []string{"YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "COREPACK_NPM_REGISTRY", "BUN_CONFIG_REGISTRY"} {
			in.env(v, s.npm.registry, "npm", from, s.secret("npm"))
		}
	}
}

func (s *Settings) inheritCargo(in *Inheritance) {
	if len(s.cargo.config) == 0 {
		return
	}
	b, err := toml.Marshal(s.cargo.config)
	if err != nil {
		return // what was read from TOML can be written as TOML
	}
	from := strings.Join(s.cargo.from, ", ")
	in.file("cargo.toml", b, "cargo", from, s.cargo.secret || s.secret("cargo"))
	// cargo has no variable for a source; it looks in every parent directory
	// of a project, whatever CARGO_HOME is.
	const target = "/.cargo/config.toml"
	in.Mounts = append(in.Mounts, Mount{"cargo.toml", target})
	in.Items = append(in.Items, Item{Kind: "file", Name: target, For: "cargo", From: from, Secret: s.cargo.secret})
}

func (s *Settings) inheritGo(in *Inheritance) {
	for _, v := range s.gocmd.vars {
		in.env(v.name, v.value, "go", v.from, strings.Contains(v.value, "@"))
	}
}

// inheritJava lets Maven and Gradle know the authorities, the mirrors and the
// way out. Other Java programs are left alone: JAVA_TOOL_OPTIONS would reach
// them, but each would say so on stderr.
func (s *Settings) inheritJava(in *Inheritance, proxyHost, proxyPort string) {
	var opts []string
	if len(s.trust.certs) > 0 {
		in.file("java-trust.jks", s.trust.jks(), "java", strings.Join(s.trust.from, ", "), false)
		opts = append(opts, "-Djavax.net.ssl.trustStore="+Dir+"/java-trust.jks", "-Djavax.net.ssl.trustStoreType=jks",
			"-Djavax.net.ssl.trustStorePassword="+keystorePassword)
	}
	gradle := opts
	if proxyHost != "" {
		gradle = append(gradle[:len(gradle):len(gradle)], "-Dhttp.proxyHost="+proxyHost, "-Dhttp.proxyPort="+proxyPort,
			"-Dhttps.proxyHost="+proxyHost, "-Dhttps.proxyPort="+proxyPort)
	}
	from := strings.Join(s.maven.from, ", ")
	if proxyHost != "" || len(s.maven.kept) > 0 {
		// The global settings: the user's own, if an image has them, stay stronger.
		in.file("maven/settings.xml", s.maven.settings(proxyHost, proxyPort), "maven", from, s.maven.secret)
		in.file("maven/logging/simplelogger.properties", []byte("org.slf4j.simpleLogger.showThreadName=false\n"+
			"org.slf4j.simpleLogger.showLogName=false\norg.slf4j.simpleLogger.logFile=System.out\n"+
			"org.slf4j.simpleLogger.levelInBrackets=true\n"), "maven", "", false)
		opts = append(opts, "-Dmaven.conf="+Dir+"/maven")
	}
	if len(s.maven.security.data) > 0 {
		in.file("maven/settings-security.xml", s.maven.security.data, "maven", s.maven.security.path, true)
		opts = append(opts, "-Dsettings.security="+Dir+"/maven/settings-security.xml")
	}
	if len(opts) > 0 {
		in.env("MAVEN_OPTS", strings.Join(opts, " "), "maven", from, false)
	}
	if len(gradle) > 0 {
		in.env("GRADLE_OPTS", strings.Join(gradle, " "), "gradle", "", false)
	}
}

func (s *Settings) inheritGem(in *Inheritance) {
	if len(s.gem.sources) == 0 {
		return
	}
	b, err := yaml.Marshal(map[string]any{":sources": s.gem.sources})
	if err != nil {
		return // a list of strings can be written
	}
	in.file("gemrc", b, "gem", s.gem.from, s.gem.secret)
	in.env("GEMRC", Dir+"/gemrc", "gem", s.gem.from, false)
}

// Write makes the files below dir, which must be new and lie in a directory that
// nobody but the caller can enter: some hold credentials. owner, when it is not negative, is the id that the
// sandbox's root has on this machine.
func (in *Inheritance) Write(dir string, owner int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write inherited settings: %w", err)
	}
	defer root.Close()
	made := []string{"."}
	for _, f := range in.Files {
		if d := filepath.Dir(f.Name); d != "." {
			if err := root.MkdirAll(d, 0o755); err != nil {
				return fmt.Errorf("write inherited settings: %w", err)
			}
			for ; d != "."; d = filepath.Dir(d) {
				made = append(made, d)
			}
		}
		// Everybody inside may read them: a build step often is another user.
		if err := root.WriteFile(f.Name, f.Data, 0o644); err != nil {
			return fmt.Errorf("write inherited settings: %w", err)
		}
		made = append(made, f.Name)
	}
	for _, p := range made {
		if owner < 0 {
			break
		}
		if err := root.Lchown(p, owner, owner); err != nil {
			return fmt.Errorf("write inherited settings: %w", err)
		}
	}
	return nil
}

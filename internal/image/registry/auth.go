package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Keychain finds credentials as Docker's command line does. The nil Keychain
// has none.
type Keychain struct {
	// Inline is the text of a config.json (DOCKER_AUTH_CONFIG); it wins.
	Inline string
	// File is a config.json; one that does not exist is empty.
	File string
	// Env is the environment of credential helpers; nil: this process's.
	Env []string
	// HelperTimeout is how long a helper may take; zero means 30 seconds.
	HelperTimeout time.Duration
}

// dockerConfig is the part of Docker's config.json that is about credentials.
// https://docs.docker.com/reference/cli/docker/login/
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredHelpers map[string]string     `json:"credHelpers"`
	CredsStore  string                `json:"credsStore"`
}

type dockerAuth struct {
	Auth          string `json:"auth"` // base64 of user:password
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

const (
	maxConfig     = 1 << 20 // bytes of a config.json or a helper's answer
	helperTimeout = 30 * time.Second
	hubKey        = "https://index.docker.io/v1/" // how Docker writes its own registry
)

// authenticator returns who we are at a registry ("host:port").
func (k *Keychain) authenticator(ctx context.Context, host string) (authn.Authenticator, error) {
	if k == nil {
		return anonymous(), nil
	}
	if k.Inline != "" {
		a, err := k.from(ctx, []byte(k.Inline), host)
		if err != nil {
			return nil, fmt.Errorf("DOCKER_AUTH_CONFIG: %w", err)
		}
		if a != nil {
			return a, nil
		}
	}
	if k.File == "" {
		return anonymous(), nil
	}
	b, err := readCapped(k.File)
	if errors.Is(err, os.ErrNotExist) {
		return anonymous(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	a, err := k.from(ctx, b, host)
	if err != nil {
		return nil, fmt.Errorf("credentials in %s: %w", k.File, err)
	}
	if a == nil {
		return anonymous(), nil
	}
	return a, nil
}

func readCapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fmt.Errorf("%s: larger than %d bytes", path, maxConfig)
	}
	return b, err
}

// from finds a host's credentials; nil if there are none.
func (k *Keychain) from(ctx context.Context, b []byte, host string) (authn.Authenticator, error) {
	var c dockerConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	helper := c.CredsStore
	for key, h := range c.CredHelpers {
		if hostOf(key) == host {
			helper = h
		}
	}
	if helper != "" {
		a, err := k.help(ctx, helper, host)
		if err != nil || a != nil {
			return a, err
		}
	}
	for key, a := range c.Auths {
		if hostOf(key) != host {
			continue
		}
		return a.authenticator()
	}
	return nil, nil
}

// hostOf brings the spellings of config.json together: Docker writes its own
// registry as a URL with a path.
func hostOf(key string) string {
	h := strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	h, _, _ = strings.Cut(h, "/")
	return canonicalHost(h)
}

// authenticator is nil for an empty entry, as credential stores leave behind.
func (a dockerAuth) authenticator() (authn.Authenticator, error) {
	c := authn.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if a.Auth != "" {
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(a.Auth))
		if err != nil {
			return nil, errors.New("an auth is not base64") // its bytes are secret
		}
		user, pass, ok := strings.Cut(strings.TrimRight(string(b), "\x00\n"), ":")
		if !ok {
			return nil, errors.New("an auth is not the base64 of USER:PASSWORD")
		}
		c.Username, c.Password = user, pass
	}
	if c == (authn.AuthConfig{}) {
		return nil, nil
	}
	return authn.FromConfig(c), nil
}

// help asks docker-credential-NAME, by its protocol: the registry on stdin, an
// object on stdout. https://github.com/docker/docker-credential-helpers
func (k *Keychain) help(ctx context.Context, helper, host string) (authn.Authenticator, error) {
	if strings.Trim(helper, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return nil, fmt.Errorf("credential helper %.80q is no plain name", helper)
	}
	limit := k.HelperTimeout
	if limit == 0 {
		limit = helperTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	server := host
	if host == name.DefaultRegistry {
		server = hubKey
	}
	program := "docker-credential-" + helper
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Env = k.Env
	if path := lookPath(k.Env, program); path != "" {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Stdin = strings.NewReader(server + "\n")
	cmd.WaitDelay = time.Second // a child of it may hold the pipes
	out := capped{left: maxConfig}
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s did not answer within %s", program, limit)
	}
	if err != nil {
		// Helpers say this on stdout, with status 1.
		if strings.Contains(out.String(), "credentials not found") {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: %w", program, err) // its output may be a secret
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("%s: its answer is not the object that was expected", program)
	}
	if answer.Username == "<token>" {
		return authn.FromConfig(authn.AuthConfig{IdentityToken: answer.Secret}), nil
	}
	if answer.Username == "" && answer.Secret == "" {
		return nil, nil
	}
	return authn.FromConfig(authn.AuthConfig{Username: answer.Username, Password: answer.Secret}), nil
}

// lookPath finds a program in the PATH of another environment than ours.
func lookPath(env []string, program string) string {
	for _, kv := range env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			for dir := range strings.SplitSeq(list, ":") {
				p := dir + "/" + program
				if fi, err := os.Stat(p); strings.HasPrefix(dir, "/") && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
					return p
				}
			}
		}
	}
	return ""
}

// capped keeps the beginning of what is written.
type capped struct {
	bytes.Buffer
	left int
}

func (c *capped) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	c.Buffer.Write(b[:n])
	return len(b), nil
}

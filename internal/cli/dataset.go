package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/importer"
	"assay/internal/importer/harbor"
)

// gitVariables are what git needs of this process to reach a server.
var gitVariables = []string{
	"PATH", "HOME", "XDG_CONFIG_HOME", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSH_AUTH_SOCK", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL",
}

// registryOf reads a registry file; a copy of it is kept for machines that are
// offline later.
func (a *app) registryOf(ctx context.Context, g *grammar, src string) ([]harbor.Dataset, error) {
	if src == "" {
		src = harbor.Default
	}
	var data []byte
	var err error
	kept := ""
	if harbor.IsURL(src) {
		dir, err := a.datasetsDir(g)
		if err != nil {
			return nil, err
		}
		kept = filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(src))
	}
	switch {
	case kept == "" || !g.Offline:
		data, err = harbor.Read(ctx, http.DefaultClient, src)
	default:
		if data, err = os.ReadFile(kept); errors.Is(err, os.ErrNotExist) {
			return nil, usagef("offline: the registry %s was never read on this machine; read it once with a network, or name a file with --registry", src)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	all, err := harbor.Parse(data)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", src, err))
	}
	if kept != "" && !g.Offline {
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(kept, data, 0o644); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// datasetsDir is where fetched data sets are kept.
func (a *app) datasetsDir(g *grammar) (string, error) {
	dir, err := a.storeDir(g)
	return filepath.Join(dir, "datasets"), err
}

// fetcher of data sets brings those of a registry.
func (a *app) datasetFetcher(src string) *harbor.Fetcher {
	f := &harbor.Fetcher{Local: src != "" && !harbor.IsURL(src), Base: filepath.Dir(src), Say: a.say}
	for _, name := range gitVariables {
		if v, ok := a.Env(name); ok {
			f.Env = append(f.Env, name+"="+v)
		}
	}
	return f
}

// importDataset writes a data set's tasks below out.
func (a *app) importDataset(ctx context.Context, g *grammar, spec, src, out string, opts importer.Options) (importer.Summary, error) {
	all, err := a.registryOf(ctx, g, src)
	if err != nil {
		return importer.Summary{}, err
	}
	d, err := harbor.Find(all, spec)
	if err != nil {
		return importer.Summary{}, usage(err)
	}
	if g.Offline {
		return importer.Summary{}, usagef("offline: %s is not fetched", d.ID())
	}
	return a.datasetFetcher(src).Import(ctx, d, out, opts)
}

// dataset gives the directory of a data set's tasks, fetched once.
func (a *app) dataset(ctx context.Context, g *grammar, spec, src string) (string, error) {
	all, err := a.registryOf(ctx, g, src)
	if err != nil {
		return "", err
	}
	d, err := harbor.Find(all, spec)
	if err != nil {
		return "", usage(err)
	}
	root, err := a.datasetsDir(g)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, d.Key(), strings.ReplaceAll(d.ID(), "/", "__"))
	whole := filepath.Join(root, d.Key(), "whole")
	if _, err := os.Stat(whole); err == nil {
		return dir, nil
	}
	if g.Offline {
		return "", usagef("offline: %s was never fetched on this machine; fetch it once with a network: assay import registry %s -o DIR, then -p DIR", d.ID(), d.ID())
	}
	if _, err := a.datasetFetcher(src).Import(ctx, d, dir, importer.Options{Force: true}); err != nil {
		return "", err
	}
	return dir, os.WriteFile(whole, nil, 0o644)
}

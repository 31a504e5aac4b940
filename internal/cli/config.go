package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/sandbox"
	"assay/internal/strict"
)

// config is what stays the same from command to command. Flags win over it.
type config struct {
	Build struct {
		InheritMirrors bool     `toml:"inherit-mirrors"`
		Network        string   `toml:"network"`
		AllowHosts     []string `toml:"allow-hosts"`
	} `toml:"build"`
}

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// config reads the machine's file and then the user's, or the one that
// ASSAY_CONFIG names alone. A key that is not known is an error.
func (a *app) config() (config, error) {
	var c config
	files := []string{"/etc/assay/config.toml"}
	if dir := a.env("XDG_CONFIG_HOME"); dir != "" {
		files = append(files, filepath.Join(dir, "assay", "config.toml"))
	} else if home := a.env("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".config", "assay", "config.toml"))
	}
	named := a.env("ASSAY_CONFIG")
	if named != "" {
		files = []string{named}
	}
	for _, p := range files {
		fi, err := os.Stat(p)
		if named == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			continue
		}
		if err == nil && fi.Size() > maxConfig {
			err = fmt.Errorf("%s: larger than %d bytes", p, maxConfig)
		}
		if err != nil {
			return c, usage(fmt.Errorf("configuration: %w", err))
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return c, usage(fmt.Errorf("configuration: %w", err))
		}
		if err := c.decode(b); err != nil {
			return c, usagef("configuration %s%w; the keys of [build] are inherit-mirrors, network and allow-hosts", p, err)
		}
	}
	return c, nil
}

// decode's errors begin with the line.
func (c *config) decode(b []byte) error {
	if faults := strict.TOML(b, c); len(faults) > 0 {
		f := faults[0]
		if f.Unknown {
			f.Err = fmt.Errorf("no such key: %v", f.Key)
		}
		if f.Line == 0 {
			return fmt.Errorf(": %w", f.Err)
		}
		return fmt.Errorf(":%d: %w", f.Line, f.Err)
	}
	switch n := sandbox.Network(c.Build.Network); n {
	case "", sandbox.NetNone, sandbox.NetAllowlist, sandbox.NetFull:
		return nil
	default:
		return fmt.Errorf(": build.network is %q, not none, allowlist or full", n)
	}
}

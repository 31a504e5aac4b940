package external

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// packages reads what the package managers say they installed.
func packages(notes map[string][]byte) ([]Package, error) {
	var all []Package
	for _, note := range []string{"node.json", "npm.json"} {
		b := notes[note]
		if b == nil {
			continue
		}
		// https://docs.npmjs.com/cli/v11/configuring-npm/package-lock-json
		var lock struct {
			Packages map[string]struct{ Version, Integrity string }
		}
		if err := json.Unmarshal(b, &lock); err != nil {
			return nil, fmt.Errorf("npm's record of the installation: %w", err)
		}
		for at, p := range lock.Packages {
			_, name, _ := cutLast(at, "node_modules/")
			all = append(all, Package{name, p.Version, p.Integrity})
		}
	}
	if b := notes["pip.json"]; b != nil {
		// https://pip.pypa.io/en/stable/reference/installation-report/
		var report struct {
			Install []struct {
				Metadata struct{ Name, Version string }
				Download struct {
					Archive struct {
						Hash   string
						Hashes map[string]string
					} `json:"archive_info"`
				} `json:"download_info"`
			}
		}
		if err := json.Unmarshal(b, &report); err != nil {
			return nil, fmt.Errorf("pip's record of the installation: %w", err)
		}
		for _, p := range report.Install {
			sum := strings.Replace(p.Download.Archive.Hash, "=", ":", 1)
			if v := p.Download.Archive.Hashes["sha256"]; v != "" {
				sum = "sha256:" + v
			}
			all = append(all, Package{p.Metadata.Name, p.Metadata.Version, sum})
		}
	}
	slices.SortFunc(all, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(all), nil
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

package setup

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// there is a way to an image that a repository itself names.
type there struct{ name, why, image, file string }

// existing are the images that a repository's own files describe for those who
// work on it. A Dockerfile is one of these only where it runs tests: others
// make what is shipped.
func existing(t *tree) []there {
	var out []there
	for _, f := range []string{".devcontainer/devcontainer.json", ".devcontainer.json", ".devcontainer/*/devcontainer.json"} {
		for _, name := range t.match(f) {
			if e, ok := devcontainer(t, name); ok {
				out = append(out, e)
			}
		}
	}
	for _, f := range []string{"Dockerfile", "Dockerfile.test", "Dockerfile.dev", "docker/Dockerfile", "test/Dockerfile", "tests/Dockerfile"} {
		for _, name := range t.match(f) {
			text := t.text(name)
			if !regexp.MustCompile(`(?i)(pytest|unittest|go test|cargo test|npm (ci|install|t\b|test)|mvn|ctest|make (check|test))`).MatchString(text) {
				continue
			}
			if slices.ContainsFunc(out, func(o there) bool { return o.file == name }) {
				continue
			}
			e := there{name: name, why: "the repository's own", file: name}
			if m := regexp.MustCompile(`(?m)^FROM\s+(?:--\S+\s+)*(\S+)`).FindStringSubmatch(text); m != nil && !strings.Contains(m[1], "$") && m[1] != "scratch" {
				e.image = m[1]
			}
			out = append(out, e)
		}
	}
	return out
}

// devcontainer reads an image or a Dockerfile out of a devcontainer.json, which
// may have comments.
func devcontainer(t *tree, name string) (there, bool) {
	text := t.text(name)
	text = regexp.MustCompile(`(?m)^\s*//.*$|/\*(?s:.*?)\*/|,(\s*[}\]])`).ReplaceAllString(text, "$1")
	var d struct {
		Image      string `json:"image"`
		DockerFile string `json:"dockerFile"`
		Build      struct {
			Dockerfile string `json:"dockerfile"`
		} `json:"build"`
	}
	if json.Unmarshal([]byte(text), &d) != nil {
		return there{}, false
	}
	e := there{name: name, why: "the repository's own", image: d.Image}
	if f := d.Build.Dockerfile + d.DockerFile; f != "" {
		e.file = path.Join(path.Dir(name), f)
		if !localPath(e.file) {
			return there{}, false
		}
	}
	return e, e.image != "" || e.file != ""
}

// theirPackages are Debian packages that the project's CI and images install.
func theirPackages(t *tree) []string {
	var out []string
	for _, pattern := range []string{".github/workflows/*.y*ml", ".gitlab-ci.yml", ".travis.yml", ".circleci/config.yml", "Dockerfile*", ".devcontainer/Dockerfile", "azure-pipelines.yml"} {
		for _, f := range t.match(pattern) {
			text := regexp.MustCompile(`\\\n`).ReplaceAllString(t.text(f), " ")
			for _, m := range regexp.MustCompile(`apt(?:-get)?\s+(?:-\S+\s+)*install\s+([^\n&|;"'#]+)`).FindAllStringSubmatch(text, 20) {
				for _, p := range strings.Fields(m[1]) {
					if debianName.MatchString(p) && !strings.ContainsAny(p, "=:") && !slices.Contains(out, p) && len(out) < 60 {
						out = append(out, p)
					}
				}
			}
		}
	}
	return out
}

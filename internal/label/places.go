package label

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/syntax"
)

// layers are parts of a project, the first that matches a path counts.
func layers() []struct {
	name string
	path *regexp.Regexp
} {
	return []struct {
		name string
		path *regexp.Regexp
	}{
		{"tests", regexp.MustCompile(`(^|/)(tests?|specs?|__tests__|testdata)/|(^|/)test_[^/]*$|_test\.\w+$|\.(test|spec)\.\w+$`)},
		{"ci", regexp.MustCompile(`(^|/)(\.github|\.gitlab-ci|\.circleci|\.ci|Jenkinsfile|azure-pipelines)`)},
		{"dependencies", regexp.MustCompile(`(^|/)(requirements[^/]*\.txt|package(-lock)?\.json|yarn\.lock|go\.(mod|sum)|Cargo\.(toml|lock)|pyproject\.toml|setup\.(py|cfg)|pom\.xml|build\.gradle[^/]*|Gemfile[^/]*|poetry\.lock|uv\.lock)$|(^|/)(site-packages|node_modules|dist-packages|\.m2|vendor)/`)},
		{"build", regexp.MustCompile(`(^|/)(Makefile[^/]*|CMakeLists\.txt|configure[^/]*|meson\.build|Dockerfile[^/]*|tox\.ini|noxfile\.py|[^/]*\.cmake)$`)},
		{"documentation", regexp.MustCompile(`(?i)(^|/)(docs?|man)/|\.(md|rst|adoc|txt)$`)},
		{"data", regexp.MustCompile(`(?i)(^|/)(migrations?|schemas?|sql|db)/|\.(sql|proto|avsc|csv|parquet|sqlite3?)$`)},
		{"interface", regexp.MustCompile(`(?i)\.(html?|css|s[ac]ss|less|vue|svelte|jsx|tsx|qml|ui|tmpl|jinja2?|ejs|hbs)$|(^|/)(templates|static|views|components)/`)},
		{"system", regexp.MustCompile(`^(etc|usr|bin|sbin|lib|lib64|opt|root|home|var|run|tmp)/`)},
		{"configuration", regexp.MustCompile(`\.(toml|ya?ml|ini|cfg|conf|json|env|properties|xml)$|(^|/)\.[^/]+$`)},
	}
}

// layer is the part of a project that a path belongs to. The solution's paths
// are relative to the working directory, or to the root.
func layer(p string) string {
	for _, l := range layers() {
		if l.path.MatchString(p) {
			return l.name
		}
	}
	return "source"
}

// language is that of a source file, by its name.
func language(p string) string {
	if l, ok := syntax.ByPath(p); ok {
		return string(l)
	}
	ext := strings.TrimPrefix(strings.ToLower(path.Ext(p)), ".")
	switch {
	case slices.Contains([]string{"sh", "bash"}, ext):
		return "shell"
	case slices.Contains([]string{"rb", "php", "kt", "scala", "swift", "pl", "lua", "sql", "cs", "hs", "ex", "dart", "r"}, ext):
		return ext
	}
	return ""
}

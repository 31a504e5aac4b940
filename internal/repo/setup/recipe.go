package setup

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/repo"
	"assay/internal/strict"

	"github.com/pelletier/go-toml/v2"
)

// RecipeFile is a recipe's name in its directory.
const RecipeFile = "recipe.toml"

// Recipe is all that a healthy image is made by. It is written whole, so that a
// person sees what was decided, and what stands in a file is done as it stands.
type Recipe struct {
	Version   int    `toml:"version"`
	Name      string `toml:"name" comment:"of the environment and its image, forge/NAME"`
	Ecosystem string `toml:"ecosystem" comment:"which table it was made from: informative"`
	System    string `toml:"system"`
	Subdir    string `toml:"subdir" comment:"of a monorepo: what is built and tested"`

	Base       string   `toml:"base" comment:"the image that everything stands upon; debian:SUITE is made by debootstrap if it is not in the store"`
	Dockerfile string   `toml:"dockerfile,omitempty" comment:"of the repository: its image is the base instead"`
	Packages   []string `toml:"packages,multiline" comment:"of Debian, shared by all projects of the ecosystem"`
	More       []string `toml:"more_packages" comment:"of Debian, for this project"`
	Toolchain  []string `toml:"toolchain" comment:"commands that make the toolchain, before the sources are there"`

	Install  []string          `toml:"install,multiline" comment:"commands in the repository, with the network of builds; the environment below is set"`
	Secrets  []string          `toml:"secrets,omitempty" comment:"ids of --secret that the commands see below /run/secrets"`
	SSH      []string          `toml:"ssh,omitempty" comment:"ids of --ssh that the commands see"`
	Services []string          `toml:"services,omitempty" comment:"commands that start what the suite needs, in the sandbox, before each run"`
	Products []string          `toml:"products" comment:"what builds leave in the tree, as git's exclude patterns"`
	Env      map[string]string `toml:"env" comment:"of builds and tests: /etc/profile.d/project.sh"`
	Offline  map[string]string `toml:"offline,omitempty" comment:"added to it when everything is installed"`

	Tests []RecipeTest `toml:"tests" comment:"the suite; report is a format of docs/test-reports.md"`
	Suite RecipeSuite  `toml:"suite"`
}

// RecipeTest is one command of the suite.
type RecipeTest struct {
	Name   string   `toml:"name"`
	Run    string   `toml:"run"`
	Dir    string   `toml:"dir,omitempty"`
	Report string   `toml:"report,omitempty"`
	Files  []string `toml:"files,omitempty"`
	Build  string   `toml:"build,omitempty"`
	Select string   `toml:"select,omitempty"`
	Driver string   `toml:"driver,omitempty"`
}

// RecipeSuite is how the suite is measured.
type RecipeSuite struct {
	Runs       int      `toml:"runs" comment:"that stability rests on"`
	TimeoutSec float64  `toml:"timeout_sec" comment:"of one run"`
	BuildSec   float64  `toml:"build_timeout_sec" comment:"of one command that installs"`
	TestFiles  []string `toml:"test_files,multiline" comment:"patterns of files that belong to the tests; those that tests stand in are added"`
}

const recipeHead = `# How assay makes this repository ready. Every line may be edited; "assay repo setup" with the same -o does what
# stands here and guesses nothing. --fresh forgets it. docs/repositories.md tells the keys.

`

// Encode is a recipe as a file.
func (r *Recipe) Encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(recipeHead)
	if err := toml.NewEncoder(&b).Encode(r); err != nil {
		return nil, fmt.Errorf("write recipe: %w", err)
	}
	return b.Bytes(), nil
}

// maxRecipe bounds a recipe file.
const maxRecipe = 1 << 20

// ReadRecipe reads a recipe and says every fault with its place.
func ReadRecipe(file string) (*Recipe, error) {
	fi, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxRecipe {
		return nil, fmt.Errorf("%s: no recipe: a file of at most %d bytes is wanted", file, maxRecipe)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return DecodeRecipe(file, b)
}

// DecodeRecipe is the recipe in a file's bytes; name is for errors.
func DecodeRecipe(name string, b []byte) (*Recipe, error) {
	r := &Recipe{}
	if f := strict.TOML(b, r); len(f) > 0 {
		return nil, strict.Errors(name, f, "a recipe has no key %q")
	}
	at := strict.Where(b)
	var faults []strict.Fault
	bad := func(err error, path ...any) { faults = append(faults, at.At(err, path...)) }
	if r.Version != 1 {
		bad(fmt.Errorf("version %d: this assay reads 1", r.Version), "version")
	}
	if NameOf(r.Name) != r.Name {
		bad(fmt.Errorf("name %.60q: small letters, digits and single dashes, at most 40", r.Name), "name")
	}
	if r.Base == "" && r.Dockerfile == "" {
		bad(fmt.Errorf("no base: name an image, debian:trixie for one"), "base")
	}
	if strings.ContainsFunc(r.Base, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '$' }) {
		bad(fmt.Errorf("base %.80q is no name of an image", r.Base), "base")
	}
	for key, ids := range map[string][]string{"secrets": r.Secrets, "ssh": r.SSH} {
		for i, id := range ids {
			if !idName.MatchString(id) {
				bad(fmt.Errorf("%.60q is no id: letters, digits, _ . -", id), key, i)
			}
		}
	}
	if r.Subdir != "" && !localPath(r.Subdir) {
		bad(fmt.Errorf("subdir %.80q leads out of the repository", r.Subdir), "subdir")
	}
	if r.Dockerfile != "" && !localPath(r.Dockerfile) {
		bad(fmt.Errorf("dockerfile %.80q leads out of the repository", r.Dockerfile), "dockerfile")
	}
	for key, lines := range map[string][]string{"install": r.Install, "toolchain": r.Toolchain, "services": r.Services, "products": r.Products} {
		for i, l := range lines {
			if err := oneCommand(l); err != nil {
				bad(err, key, i)
			}
		}
	}
	for key, list := range map[string][]string{"packages": r.Packages, "more_packages": r.More} {
		for i, p := range list {
			if !debianName.MatchString(p) {
				bad(fmt.Errorf("%.60q is no name of a Debian package", p), key, i)
			}
		}
	}
	for key, env := range map[string]map[string]string{"env": r.Env, "offline": r.Offline} {
		for k, v := range env {
			if !envName.MatchString(k) || strings.ContainsAny(v, "\n\x00") {
				bad(fmt.Errorf("%.60q: a variable's name, and a value of one line", k), key, k)
			}
		}
	}
	for i, t := range r.Tests {
		if t.Name == "" || t.Run == "" {
			bad(fmt.Errorf("a test command has a name and a line to run"), "tests", i)
		}
		if t.Dir != "" && !localPath(t.Dir) {
			bad(fmt.Errorf("dir %.80q leads out of the repository", t.Dir), "tests", i, "dir")
		}
		if t.Report != "" {
			if _, err := report.ReaderOf(report.Format(t.Report)); err != nil {
				bad(err, "tests", i, "report")
			}
		}
	}
	if len(faults) > 0 {
		slices.SortFunc(faults, func(a, b strict.Fault) int { return a.Line - b.Line })
		return nil, strict.Errors(name, faults, "a recipe has no key %q")
	}
	return r, nil
}

var (
	debianName = regexp.MustCompile(`^[a-z0-9][a-z0-9.+:=~-]{0,100}$`)
	idName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,100}$`)
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// oneCommand refuses what would not stay one RUN of a Dockerfile.
func oneCommand(l string) error {
	switch {
	case strings.TrimSpace(l) == "":
		return fmt.Errorf("an empty command")
	case strings.ContainsAny(l, "\n\r\x00"), strings.HasSuffix(strings.TrimSpace(l), "\\"):
		return fmt.Errorf("%.60q: a command is one line; join several with &&, or keep them in a script of the repository", l)
	case strings.Contains(l, "<<"):
		return fmt.Errorf("%.60q: no here-documents; keep the text in a file of the repository", l)
	}
	return nil
}

func localPath(p string) bool {
	return p != "" && !path.IsAbs(p) && path.Clean(p) == p && p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\x00\n")
}

// commands is the suite as an environment has it.
func (r *Recipe) commands() []repo.Command {
	var out []repo.Command
	for _, t := range r.Tests {
		c := repo.Command{Command: checks.Command{Name: t.Name, Run: t.Run, Dir: t.Dir, Report: report.Format(t.Report), Files: t.Files, TimeoutSec: r.Suite.TimeoutSec},
			Build: t.Build, Select: t.Select, Driver: t.Driver}
		if len(r.Services) > 0 {
			c.Run = start + c.Run
			if c.Select != "" {
				c.Select = start + c.Select
			}
		}
		out = append(out, c)
	}
	return out
}

// start starts the services; their script is part of the image.
const (
	servicesFile = "/opt/assay/services.sh"
	servicesLog  = "/tmp/assay-services.log"
	start        = ". " + servicesFile + "; "
)

package external

import (
	"assay/internal/image"
	"assay/internal/model"
)

// Recipe is one agent as data. Texts marked (template) may hold variables, see
// [Variables].
type Recipe struct {
	Name    string `toml:"name"`              // lower-case letters, digits, dashes
	Version string `toml:"version"`           // of the agent's main package; what name@version asks for
	Summary string `toml:"summary,omitempty"` // one line for people
	Home    string `toml:"home,omitempty"`    // URL of the project

	// Dialects that the agent can speak as it is configured here, the preferred
	// one first. Empty: it asks no model.
	Dialects []model.Dialect `toml:"dialects,omitempty"`

	Install Install `toml:"install"`
	Run     Run     `toml:"run"`
	// Files are written before each run.
	Files []ConfigFile `toml:"file,omitempty"`
	Logs  Logs         `toml:"logs,omitempty"`
	Clean Clean        `toml:"clean,omitempty"`

	// Vars are the recipe's own variables (templates), for texts that a switch
	// or a variant changes.
	Vars map[string]string `toml:"vars,omitempty"`
	// NoRetries is what makes the agent give up at the first failed call.
	NoRetries Switch `toml:"no_retries,omitempty"`
	// Effort holds what asks for a reasoning effort, by its name ("low", "high").
	Effort map[string]Switch `toml:"effort,omitempty"`
	// MCP is what connects the agent to the tool server at {{mcp_url}}.
	MCP Switch `toml:"mcp,omitempty"`
	// Variants are other ways to run the same installation: -a NAME/VARIANT.
	Variants map[string]Variant `toml:"variant,omitempty"`

	// File is where a user's recipe was read from; empty for those of the table.
	File string `toml:"-"`
}

// Runtime is what an agent's program is written for.
type Runtime string

const (
	RuntimeNone   Runtime = "none" // static programs, shell scripts
	RuntimeNode   Runtime = "node"
	RuntimePython Runtime = "python"
)

// Install says what goes into the agent's layer.
type Install struct {
	Runtime Runtime `toml:"runtime"`
	// RuntimeVersion is the exact version of the runtime; empty: node's is
	// assay's own pin, python's is that of the place where it is installed.
	RuntimeVersion string `toml:"runtime_version,omitempty"`
	// Packages are pins for npm ("@scope/name@1.2.3") or pip ("name==1.2.3").
	// One without a version is refused: a pin is what makes runs comparable.
	Packages []string `toml:"packages,omitempty"`
	// Loose are further packages without a pin, e.g. a dependency that the
	// agent forgets; what was installed is recorded.
	Loose []string `toml:"loose,omitempty"`
	// Scripts lets npm run the packages' install scripts.
	Scripts bool `toml:"scripts,omitempty"`
	// Copy are files and directories beside the recipe file that are copied to
	// the layer's root.
	Copy []string `toml:"copy,omitempty"`
	// Steps are shell lines that run in the layer's root at the end of the
	// installation, with the network of the package managers.
	Steps []string `toml:"steps,omitempty"`
	// Programs are the commands of the layer's bin, by name, as paths below the
	// layer's root. Those of the packages named here are there without it.
	Programs map[string]string `toml:"programs,omitempty"`
	// Prune are globs below the layer's root of what is removed in the end.
	Prune []string `toml:"prune,omitempty"`
	// Warm is a command line (a template) that is run once, without a network,
	// with HOME at the layer's warm directory, which becomes part of the layer:
	// what it unpacked there is shown to each run as {{warm}}.
	Warm []string `toml:"warm,omitempty"`
}

// Run says how the program is started: without a terminal, stdin at
// /dev/null, in the work directory.
type Run struct {
	// Prepare are commands (templates) that run first, each to its end.
	Prepare [][]string `toml:"prepare,omitempty"`
	// Command is the program and its arguments (templates). A first word
	// without a slash is a program of the layer's bin. The word {{args}} alone
	// stands for the arguments of switches.
	Command []string `toml:"command"`
	// Env (templates) is for the agent's own process and whatever of it that
	// hands on. HOME is the task's, unless it is named here: HOME = "{{home}}".
	Env map[string]string `toml:"env,omitempty"`
	// MemoryMB is what the agent itself may use on top of the task's limit.
	MemoryMB int64 `toml:"memory_mb,omitempty"`
	// Exits explains exit statuses, for people.
	Exits map[string]string `toml:"exits,omitempty"`
}

// Switch changes a run.
type Switch struct {
	Args []string          `toml:"args,omitempty"` // templates, at {{args}}
	Env  map[string]string `toml:"env,omitempty"`  // templates
	Vars map[string]string `toml:"vars,omitempty"` // templates, in place of the recipe's
}

// Variant changes a recipe. What it does not name stays.
type Variant struct {
	Summary  string            `toml:"summary,omitempty"`
	Dialects []model.Dialect   `toml:"dialects,omitempty"`
	Prepare  [][]string        `toml:"prepare,omitempty"`
	Command  []string          `toml:"command,omitempty"`
	Env      map[string]string `toml:"env,omitempty"`  // added
	Vars     map[string]string `toml:"vars,omitempty"` // added
	Files    []ConfigFile      `toml:"file,omitempty"` // added; one of the same path replaces
}

// ConfigFile is written before the run.
type ConfigFile struct {
	Path    string `toml:"path"`           // template: "{{home}}/…"; nowhere else
	Mode    string `toml:"mode,omitempty"` // octal; default 0666, for the agent's user may be any
	Content string `toml:"content"`        // template
}

// Logs says where the agent leaves its own record. What it writes below
// {{logs}} is kept without being named.
type Logs struct {
	Home    []string `toml:"home,omitempty"` // globs below {{home}}; ** is any depth
	Workdir []string `toml:"workdir,omitempty"`
	// Failed are texts whose presence in the last lines of the output means
	// that the agent gave up, whatever its exit status says.
	Failed []string `toml:"failed,omitempty"`
}

// Clean says what of the work tree is the agent's and no work.
type Clean struct {
	Workdir []string `toml:"workdir,omitempty"` // globs of what is removed after the run, unless the task had it
	Tmp     []string `toml:"tmp,omitempty"`     // globs below /tmp, likewise
	Commits bool     `toml:"commits,omitempty"` // the agent commits its work itself
}

// placeRoot holds the layers of agents in a sandbox, one in each.
const placeRoot = "/opt/assay/"

// maxTag keeps the paths of loader and libraries within the room that the
// programs have for theirs: "/etc/ld.so.preload" is the shortest.
const maxTag = 5

// Installs reports whether the agent has a layer of its own; without one its
// program is in the task's image.
func (r Recipe) Installs() bool {
	in := r.Install
	return len(in.Packages)+len(in.Loose)+len(in.Copy)+len(in.Steps) > 0
}

// Place is where the agent's layer is mounted. It is short, for it is written
// into programs in the place of another path.
func (r Recipe) Place() image.Path {
	return image.Path(placeRoot + r.Name[:min(maxTag, len(r.Name))])
}

package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	configName       = "task.toml"
	legacyConfigName = "task.yaml" // Terminal-Bench 1
)

// ErrNoTask is a directory that does not even claim to be a task.
var ErrNoTask = errors.New("no task.toml")

// Load reads a task directory and refuses exactly what Harbor refuses, and a
// few things that Harbor would choke on later: links that lead out of the task,
// devices and pipes among the files that are copied, and files past the caps.
//
// Errors name file, line and column where there is one: *SyntaxError,
// *ConfigError, *LayoutError, or ErrNoTask. Nothing is executed or written.
func Load(dir string) (*Task, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	l := loader{t: t, f: newFilter(t)}
	task, err := l.load()
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", quotePath(t.dir), err)
	}
	return task, nil
}

// Skipped is a directory of a task set that holds no valid task.
type Skipped struct {
	Dir    string // absolute
	Reason error
}

// LoadSet reads one task, or a directory of tasks: one level deep, names that
// begin with a dot left out, in the order of their names. Each directory that
// is no valid task is named with the reason. It is an error when there is no
// task at all, or when path itself is a task that cannot be read.
func LoadSet(path string) ([]*Task, []Skipped, error) {
	dirs, single, err := taskDirs(path)
	if err != nil {
		return nil, nil, err
	}
	if single {
		t, err := Load(path)
		if err != nil {
			return nil, nil, err
		}
		return []*Task{t}, nil, nil
	}
	var tasks []*Task
	var skipped []Skipped
	for _, dir := range dirs {
		t, err := Load(dir)
		if err != nil {
			skipped = append(skipped, Skipped{Dir: dir, Reason: err})
			continue
		}
		tasks = append(tasks, t)
	}
	switch {
	case len(tasks) > 0:
		return tasks, skipped, nil
	case len(skipped) > 0:
		return nil, skipped, fmt.Errorf("no task in %s: %d directories skipped, the first because of: %w", path, len(skipped), skipped[0].Reason)
	}
	return nil, nil, fmt.Errorf("no task in %s: it holds no task.toml and no directory that does: %w", path, ErrNoTask)
}

// taskDirs lists the directories of a set; single is true when path itself
// holds a task.toml or task.yaml, valid or not.
func taskDirs(path string) (dirs []string, single bool, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, false, fmt.Errorf("read tasks: %w", err)
	}
	for _, name := range []string{configName, legacyConfigName} {
		if _, err := os.Lstat(filepath.Join(abs, name)); err == nil {
			return nil, true, nil
		}
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return nil, false, fmt.Errorf("read tasks: %w", err)
	}
	if len(entries) > maxTreeEntries {
		return nil, false, fmt.Errorf("read tasks: %s has more than %d entries", abs, maxTreeEntries)
	}
	for _, e := range entries {
		dir := filepath.Join(abs, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs, false, nil
}

// loader reads one task.
type loader struct {
	t *tree
	f *filter
	c Config

	context string // build directory, where the format lets a task choose
}

func (l *loader) load() (*Task, error) {
	if _, err := os.Lstat(l.t.path(configName)); err != nil {
		if _, err := os.Lstat(l.t.path(legacyConfigName)); err == nil {
			return l.loadLegacy()
		}
		return nil, ErrNoTask
	}
	data, err := l.t.readText(configName, maxConfigFile)
	if err != nil {
		return nil, err
	}
	d, err := decodeTOML(configName, data)
	if err != nil {
		return nil, err
	}
	l.c = d.config
	if err := d.err(); err != nil {
		return nil, err
	}
	var first *LayoutError
	if err := l.layout(func(e *LayoutError) bool { first = e; return false }); err != nil {
		return nil, err
	}
	if first != nil {
		return nil, first
	}
	return l.task()
}

// decoded is a task.toml read, with every remark about it.
type decoded struct {
	decoder
	config Config
}

func decodeTOML(file, text string) (*decoded, error) {
	doc, err := parseTOML(file, []byte(text))
	if err != nil {
		return nil, err
	}
	d := &decoded{decoder: decoder{doc: doc}}
	d.config = d.decodeConfig()
	return d, nil
}

// task puts the parts together once the layout is known to be sound.
func (l *loader) task() (*Task, error) {
	task := &Task{Dir: l.t.dir, Name: filepath.Base(l.t.dir), Config: l.c, Format: FormatHarbor, layout: l.summary()}
	if l.c.Task != nil {
		task.Name = l.c.Task.Name
	}
	names := []string{""}
	if len(l.c.Steps) > 0 {
		names = names[:0]
		for _, s := range l.c.Steps {
			names = append(names, s.Name)
		}
	}
	for _, name := range names {
		text, err := l.t.readText(stepDir(name)+"instruction.md", maxTextFile)
		if err != nil {
			return nil, err
		}
		task.Steps = append(task.Steps, Step{Name: name, Instruction: stripCanary(text)})
	}
	return task, nil
}

// stepDir is the prefix of a step's files; empty for a single-step task.
func stepDir(name string) string {
	if name == "" {
		return ""
	}
	return "steps/" + name + "/"
}

// layout checks the files of a task against its configuration and reports what
// is missing or must not be there, until report returns false.
func (l *loader) layout(report func(*LayoutError) bool) error {
	stopped := false
	tell := func(path, message, remedy string) bool {
		stopped = stopped || !report(&LayoutError{Path: path, Message: message, Remedy: remedy})
		return !stopped
	}
	if l.c.Environment.DockerImage == "" && !l.t.isDir("environment") {
		if !tell("environment", "missing", "add environment/, or set [environment].docker_image") {
			return nil
		}
	}
	walk := inputWalk{t: l.t, f: l.f, report: func(e *LayoutError) bool { return tell(e.Path, e.Message, e.Remedy) }}
	dirs := []string{"tests", "solution"}
	for _, s := range l.c.Steps {
		dirs = append(dirs, "steps/"+s.Name)
	}
	for _, dir := range dirs {
		if err := walk.check(dir); err != nil || stopped {
			return err
		}
	}
	if len(l.c.Steps) == 0 {
		return l.stepLayout(nil, tell)
	}
	for i := range l.c.Steps {
		if err := l.stepLayout(&l.c.Steps[i], tell); err != nil || stopped {
			return err
		}
	}
	return nil
}

func (l *loader) stepLayout(s *StepConfig, tell func(path, message, remedy string) bool) error {
	prefix := ""
	if s != nil {
		prefix = stepDir(s.Name)
		if !l.t.exists(strings.TrimSuffix(prefix, "/")) {
			tell(strings.TrimSuffix(prefix, "/"), "missing", "add the step's directory")
			return nil
		}
	}
	if _, err := l.t.stat(prefix + "instruction.md"); err != nil {
		message, remedy := "missing", "add it: it is what the agent reads"
		if !errors.Is(err, fs.ErrNotExist) {
			message, remedy = reasonText(err), ""
		}
		if !tell(prefix+"instruction.md", message, remedy) {
			return nil
		}
	}
	v := l.verifier(s)
	if v.separate {
		walk := inputWalk{t: l.t, report: func(e *LayoutError) bool { return tell(e.Path, e.Message, e.Remedy) }}
		if v.dir != "" {
			if err := walk.check(v.dir); err != nil {
				return err
			}
		}
	}
	if v.bundled {
		return nil
	}
	script, ok := l.script(s, "tests", "test", v.os)
	if !ok {
		remedy := "add the verifier's script"
		if l.t.exists(path.Join(path.Dir(script), "checks.toml")) {
			remedy += "; assay task checks script --write makes it of the check plan"
		}
		tell(script, "missing", remedy)
		return nil
	}
	isDir := l.t.isDir(script)
	x, err := l.f.excluded(script, isDir)
	if err != nil {
		return err
	}
	if x {
		tell(script, "is excluded by "+ignoreName, "the verifier needs it")
	}
	return nil
}

func reasonText(err error) string {
	var le *LayoutError
	if errors.As(err, &le) {
		return le.Message
	}
	return reason(err).Error()
}

// script finds test.sh or solve.sh (.bat for Windows): the step's, else the
// task's. Without one it names where it is expected.
func (l *loader) script(s *StepConfig, dir, base string, os OS) (string, bool) {
	name := base + ".sh"
	if os == OSWindows {
		name = base + ".bat"
	}
	shared := dir + "/" + name
	if s != nil {
		own := stepDir(s.Name) + shared
		if l.t.exists(own) {
			return own, true
		}
		if !l.t.exists(shared) {
			return own, false
		}
	}
	return shared, l.t.exists(shared)
}

// verifierPlace is where a step's verifier runs, after Harbor's precedence.
type verifierPlace struct {
	separate bool
	env      *Environment // the separate verifier's own table; nil: a copy of [environment]
	image    string       // docker_image of the separate verifier
	dir      string       // directory of its Dockerfile or Compose file
	bundled  bool         // its image holds the tests
	os       OS
}

func (l *loader) verifier(s *StepConfig) verifierPlace {
	v := verifierPlace{os: l.c.Environment.OS}
	if verifierMode(&l.c, s) != EnvironmentSeparate {
		return v
	}
	v.separate = true
	if v.env = l.c.Verifier.Environment; s != nil && s.Verifier.Environment != nil {
		v.env = s.Verifier.Environment
	}
	if v.env != nil {
		v.os = v.env.OS
	}
	type candidate struct {
		env *Environment
		dir string
	}
	candidates := []candidate{{l.c.Verifier.Environment, "tests"}}
	if s != nil {
		candidates = append([]candidate{{s.Verifier.Environment, stepDir(s.Name) + "tests"}}, candidates...)
	}
	for _, c := range candidates {
		if c.env != nil && c.env.DockerImage != "" {
			v.image, v.bundled = c.env.DockerImage, true
			return v
		}
		if l.t.isFile(c.dir+"/Dockerfile") || l.t.isFile(c.dir+"/docker-compose.yaml") {
			v.dir, v.bundled = c.dir, true
			return v
		}
	}
	v.dir, v.image = "environment", l.c.Environment.DockerImage
	if v.os == OSUnset {
		v.os = l.c.Environment.OS
	}
	return v
}

// verifierMode: an explicit mode wins, an environment implies separate, a
// step's own setting precedes the task's.
func verifierMode(c *Config, s *StepConfig) EnvironmentMode {
	own := func(v *VerifierConfig) EnvironmentMode {
		if v.EnvironmentMode == EnvironmentUnset && v.Environment != nil {
			return EnvironmentSeparate
		}
		return v.EnvironmentMode
	}
	if s != nil {
		if m := own(&s.Verifier); m != EnvironmentUnset {
			return m
		}
	}
	return own(&c.Verifier)
}

// canaryLine marks text that must not end in training data; agents do not see it.
var canaryLine = regexp.MustCompile(`(?i)^(<!--.*canary.*-->|#.*canary.*)$`)

func stripCanary(text string) string {
	lines := strings.Split(text, "\n")
	i := 0
	for i < len(lines) && canaryLine.MatchString(strings.TrimFunc(lines[i], pythonSpace)) {
		i++
	}
	for i < len(lines) && strings.TrimFunc(lines[i], pythonSpace) == "" {
		i++
	}
	return strings.Join(lines[i:], "\n")
}

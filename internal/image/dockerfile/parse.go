package dockerfile

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// maxDockerfile is the largest Dockerfile that is read, in bytes.
const maxDockerfile = 1 << 20

// program is a Dockerfile that this package can execute.
type program struct {
	file     string
	escape   rune
	args     []arg // before the first FROM
	stages   []*stage
	warnings []string // of BuildKit's own linter
}

// stage is one FROM and what follows it.
type stage struct {
	index    int
	name     string // in lower case; may be empty
	base     string // FROM's image, variables not yet replaced
	platform string
	from     step
	steps    []step
}

// step is one instruction.
type step struct {
	line    int
	name    string // "COPY"
	code    string // as written, without comments
	cmd     any    // of package instructions
	trigger bool   // an ONBUILD of the base
}

type arg struct {
	step
	args []instructions.KeyValuePairOptional
}

// parse reads a Dockerfile and refuses every form that Build does not execute.
// file is its name in messages.
func parse(file string, b []byte) (*program, error) {
	p := &program{file: file}
	if len(b) > maxDockerfile {
		return nil, &Error{File: file, Err: fmt.Errorf("%d bytes, the cap is %d", len(b), maxDockerfile)}
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, &Error{File: file, Err: errors.New("it is empty")}
	}
	lint, err := p.directives(b)
	if err != nil {
		return nil, err
	}
	r, err := parser.Parse(bytes.NewReader(b))
	if err != nil {
		return nil, &Error{File: file, Line: lineOf(err), Err: err}
	}
	p.escape = r.EscapeToken
	for _, n := range r.AST.Children {
		s := step{line: n.StartLine, name: strings.ToUpper(n.Value), code: strings.TrimSpace(n.Original)}
		s.cmd, err = instructions.ParseInstructionWithLinter(n, lint)
		if err == nil {
			err = p.add(s)
		}
		if err != nil {
			return nil, p.at(s, err)
		}
	}
	if len(p.stages) == 0 {
		return nil, &Error{File: file, Err: errors.New("it has no FROM")}
	}
	if err := lint.Error(); err != nil {
		return nil, &Error{File: file, Err: err}
	}
	return p, nil
}

// frontend is what a "# syntax=" may name: the official one, of any version and
// channel, whose grammar this is.
var frontend = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(docker\.io/)?docker/dockerfile(-upstream)?(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$`)
})

// directives reads the comments that steer the parser. "escape" is the
// parser's own.
func (p *program) directives(b []byte) (*linter.Linter, error) {
	if name, _, at, ok := parser.DetectSyntax(b); ok && !frontend().MatchString(name) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		return nil, &Error{File: p.file, Line: line, Err: &UnsupportedError{"# syntax=" + name,
			"only docker/dockerfile is built here: leave the line out, or build it with BuildKit and import the image"}}
	}
	c := &linter.Config{}
	if text, _, at, ok := parser.ParseDirective("check", b); ok {
		var err error
		if c, err = linter.ParseLintOptions(text); err != nil {
			return nil, &Error{File: p.file, Line: at[0].Start.Line, Err: err}
		}
	}
	c.Warn = func(rule, _, _, message string, at []parser.Range) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		p.warnings = append(p.warnings, fmt.Sprintf("%s:%d: %s: %s", p.file, line, rule, message))
	}
	return linter.New(c), nil
}

// at says where in the file an error belongs.
func (p *program) at(s step, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{File: p.file, Line: s.line, Instruction: s.name, Err: err}
}

func lineOf(err error) int {
	var l *parser.LocationError
	if errors.As(err, &l) && len(l.Locations) > 0 && len(l.Locations[0]) > 0 {
		return l.Locations[0][0].Start.Line
	}
	return 0
}

func (p *program) add(s step) error {
	if c, ok := s.cmd.(*instructions.Stage); ok {
		p.stages = append(p.stages, &stage{index: len(p.stages), name: strings.ToLower(c.Name), base: c.BaseName,
			platform: c.Platform, from: s})
		return nil
	}
	if len(p.stages) == 0 {
		if c, ok := s.cmd.(*instructions.ArgCommand); ok {
			p.args = append(p.args, arg{s, c.Args})
			return nil
		}
		return errors.New("comes before the first FROM")
	}
	if err := supported(s); err != nil {
		return err
	}
	st := p.stages[len(p.stages)-1]
	st.steps = append(st.steps, s)
	return nil
}

// supported refuses instructions, flags and forms that Build cannot execute
// exactly as Docker does.
func supported(s step) error {
	switch c := s.cmd.(type) {
	case *instructions.RunCommand:
		return supportedRun(c)
	case *instructions.CopyCommand:
		for _, src := range c.SourcePaths {
			if isURL(src) || isGit(src) {
				return fmt.Errorf("%q: a URL can only be a source of ADD", src)
			}
		}
		if strings.Contains(c.From, "$") {
			return errors.New("variables are not replaced in --from; name a stage: FROM $IMAGE AS name")
		}
	case *instructions.AddCommand:
		if c.KeepGitDir != nil {
			return &UnsupportedError{"ADD --keep-git-dir", "clone it by RUN git clone, whose server assay image build --allow-host names, or put the repository into the build context"}
		}
		for _, src := range c.SourcePaths {
			if isGit(src) {
				return &UnsupportedError{"ADD of a git repository", "clone it by RUN git clone, whose server assay image build --allow-host names, or put the repository into the build context"}
			}
		}
	case *instructions.StopSignalCommand:
		if !strings.Contains(c.Signal, "$") {
			return checkSignal(c.Signal)
		}
	case *instructions.OnbuildCommand:
		_, err := trigger(s, c.Expression)
		return err
	}
	return nil
}

func supportedRun(c *instructions.RunCommand) error {
	if !c.PrependShell && (len(c.CmdLine) == 0 || c.CmdLine[0] == "") {
		return errors.New("it names no program: write RUN [\"PROGRAM\", \"ARGUMENT\"] or a shell's command line")
	}
	if instructions.GetSecurity(c) == instructions.SecurityInsecure {
		return &UnsupportedError{"RUN --security=insecure", "no command gets the machine's own rights: leave the flag out"}
	}
	if instructions.GetNetwork(c) == instructions.NetworkHost {
		return &UnsupportedError{"RUN --network=host", "no command gets the machine's own network: leave the flag out"}
	}
	if len(instructions.GetDevices(c)) > 0 {
		return &UnsupportedError{"RUN --device", "sandboxes have no devices of the machine"}
	}
	// Variables in mounts are replaced only when it is their turn; what has
	// none can be judged now.
	plain := true
	keep := func(w string) (string, error) {
		plain = plain && !strings.Contains(w, "$")
		return w, nil
	}
	if err := c.Expand(keep); err != nil && plain {
		return err
	}
	if !plain {
		return nil
	}
	return supportedMounts(instructions.GetMounts(c))
}

func supportedMounts(mounts []*instructions.Mount) error {
	for _, m := range mounts {
		switch {
		case m.Type == instructions.MountTypeCache && m.From != "":
			return &UnsupportedError{"RUN --mount=type=cache,from=", "copy what it begins with in the command"}
		case m.Type == instructions.MountTypeSSH && m.Source != "":
			return errors.New("an ssh mount has no source")
		case m.Target == "" && (m.Type == instructions.MountTypeBind || m.Type == instructions.MountTypeCache || m.Type == instructions.MountTypeTmpfs):
			return fmt.Errorf("a %s mount needs a target", m.Type)
		case path.Clean("/"+m.Target) == "/" && path.IsAbs(m.Target):
			return fmt.Errorf("a %s mount cannot cover /", m.Type)
		}
	}
	return nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// isGit reports what BuildKit would clone.
func isGit(s string) bool {
	for _, scheme := range []string{"git://", "ssh://", "git@", "git+ssh://"} {
		if strings.HasPrefix(s, scheme) {
			return true
		}
	}
	if isURL(s) {
		u, _, _ := strings.Cut(s, "#")
		u, _, _ = strings.Cut(u, "?")
		return strings.HasSuffix(u, ".git")
	}
	return strings.HasPrefix(s, "github.com/")
}

func isHeredoc(args []string) bool {
	if len(args) != 1 {
		return false
	}
	h, err := parser.ParseHeredoc(args[0])
	return err == nil && h != nil
}

// trigger makes a step of an ONBUILD's instruction.
func trigger(at step, expression string) (step, error) {
	r, err := parser.Parse(strings.NewReader(expression))
	if err != nil {
		return step{}, err
	}
	if len(r.AST.Children) != 1 {
		return step{}, fmt.Errorf("ONBUILD takes one instruction, not %q", expression)
	}
	n := r.AST.Children[0]
	s := step{line: at.line, name: strings.ToUpper(n.Value), code: strings.TrimSpace(n.Original), trigger: true}
	if s.cmd, err = instructions.ParseCommand(n); err != nil {
		return s, err
	}
	if _, ok := s.cmd.(*instructions.OnbuildCommand); ok {
		return s, errors.New("ONBUILD within ONBUILD")
	}
	return s, supported(s)
}

package dockerfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// maxDockerfile is the largest Dockerfile that is read, in bytes.
const maxDockerfile = 1 << 20

// program is a Dockerfile that this package can execute.
type program struct {
	file   string
	escape rune
	args   []arg // before FROM
	from   step
	base   string // FROM's image, variables not yet replaced
	steps  []step
}

// step is one instruction.
type step struct {
	line int
	name string // "COPY"
	code string // as written, without comments
	cmd  any    // of package instructions
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
	r, err := parser.Parse(bytes.NewReader(b))
	if err != nil {
		return nil, &Error{File: file, Line: lineOf(err), Err: err}
	}
	p.escape = r.EscapeToken
	for _, n := range r.AST.Children {
		s := step{line: n.StartLine, name: strings.ToUpper(n.Value), code: strings.TrimSpace(n.Original)}
		s.cmd, err = instructions.ParseInstruction(n)
		if err == nil {
			err = p.add(s)
		}
		if err != nil {
			return nil, p.at(s, err)
		}
	}
	if p.from.cmd == nil {
		return nil, &Error{File: file, Err: errors.New("it has no FROM")}
	}
	return p, nil
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
	if p.from.cmd == nil {
		switch c := s.cmd.(type) {
		case *instructions.ArgCommand:
			p.args = append(p.args, arg{s, c.Args})
			return nil
		case *instructions.Stage:
			if c.Platform != "" {
				return &UnsupportedError{"FROM --platform", "images run on this machine's platform only: leave the flag out"}
			}
			p.from, p.base = s, c.BaseName
			return nil
		}
		return errors.New("comes before the first FROM")
	}
	if err := supported(s); err != nil {
		return err
	}
	p.steps = append(p.steps, s)
	return nil
}

// supported refuses instructions, flags and forms that Build cannot execute
// exactly as Docker does.
func supported(s step) error {
	switch c := s.cmd.(type) {
	case *instructions.ArgCommand, *instructions.EnvCommand, *instructions.WorkdirCommand, *instructions.UserCommand,
		*instructions.LabelCommand, *instructions.ExposeCommand, *instructions.CmdCommand, *instructions.EntrypointCommand:
		return nil
	case *instructions.RunCommand:
		for _, f := range c.FlagsUsed {
			return &UnsupportedError{"RUN --" + f, "write what the command needs into the image by COPY, and the command without the flag"}
		}
		if len(c.Files) > 0 && isHeredoc(c.CmdLine) && strings.HasPrefix(c.Files[0].Data, "#!") {
			return &UnsupportedError{"RUN with a here-document that begins with #!", "COPY the script and RUN it"}
		}
		return nil
	case *instructions.CopyCommand:
		return supportedCopy(c)
	case *instructions.Stage:
		return &UnsupportedError{"a second FROM (multi-stage build)", "build the stages outside, or use an image that holds what they make"}
	case *instructions.AddCommand:
		return &UnsupportedError{s.name, "use COPY; fetch and unpack archives beforehand or by RUN"}
	case *instructions.ShellCommand:
		return &UnsupportedError{s.name, `name the shell in each RUN: RUN ["/bin/bash", "-c", "…"]`}
	case *instructions.VolumeCommand:
		return &UnsupportedError{s.name, "leave it out: a sandbox has no volumes, and its directories are writable anyway"}
	case *instructions.HealthCheckCommand:
		return &UnsupportedError{s.name, "leave it out: a task's own healthcheck stands in task.toml"}
	case *instructions.OnbuildCommand:
		return &UnsupportedError{s.name, "write the instruction where the image is used"}
	case *instructions.StopSignalCommand:
		return &UnsupportedError{s.name, "leave it out: a sandbox is ended as a whole"}
	case *instructions.MaintainerCommand:
		return &UnsupportedError{s.name, "write LABEL maintainer=… instead"}
	}
	return &UnsupportedError{s.name, "leave it out"}
}

func supportedCopy(c *instructions.CopyCommand) error {
	for _, f := range []struct {
		used         bool
		flag, remedy string
	}{
		{c.From != "", "from", "copy the files into the build context first"},
		{c.Chown != "", "chown", "RUN chown afterwards"},
		{c.Chmod != "", "chmod", "set the mode in the build context, or RUN chmod afterwards"},
		{c.Link, "link", "leave the flag out: it changes how layers are shared, not what is in them"},
		{c.Parents, "parents", "copy each directory by a COPY of its own"},
		{len(c.ExcludePatterns) > 0, "exclude", "use .dockerignore"},
	} {
		if f.used {
			return &UnsupportedError{"COPY --" + f.flag, f.remedy}
		}
	}
	return nil
}

func isHeredoc(args []string) bool {
	if len(args) != 1 {
		return false
	}
	h, err := parser.ParseHeredoc(args[0])
	return err == nil && h != nil
}

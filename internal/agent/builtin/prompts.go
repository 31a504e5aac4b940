package builtin

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed prompts/*.md
var promptFiles embed.FS

// situation is what prompts may speak of.
type situation struct {
	Task, Step, Instruction, Workdir string

	Strategy
	Text    bool   // calls are asked for in plain text
	Tools   []tool // hides the strategy's
	Notes   string // the plan
	Summary string
	Actions []string
	Times   int // that something was repeated
	Left    int // times until something ends
	Files   []asked
}

// prompts are all texts of prompts/, those of the strategy in their place.
func (s *Strategy) prompts() (*template.Template, error) {
	all := template.New("").Option("missingkey=error")
	files, err := promptFiles.ReadDir("prompts")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		text, err := promptFiles.ReadFile(path.Join("prompts", f.Name()))
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(f.Name(), ".md")
		names = append(names, name)
		if own, ok := s.Prompts[name]; ok {
			text = []byte(own)
		}
		if _, err := all.New(name).Parse(strings.TrimRight(string(text), "\n")); err != nil {
			return nil, fmt.Errorf("prompt %s: %w", name, err)
		}
	}
	for name := range s.Prompts {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("strategy: there is no prompt %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	return all, nil
}

func say(all *template.Template, name string, s situation) (string, error) {
	var b strings.Builder
	if err := all.ExecuteTemplate(&b, name, s); err != nil {
		return "", fmt.Errorf("prompt %s: %w", name, err)
	}
	return b.String(), nil
}

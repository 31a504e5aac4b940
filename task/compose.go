package task

import (
	"errors"
	"fmt"
	"io/fs"
)

// Sidecar is a service that must run beside the agent's own container.
type Sidecar struct {
	Name string
	File string // of the Compose file, relative to the task
	Position
}

func (s Sidecar) String() string {
	return fmt.Sprintf("%s:%d: service %q", s.File, s.Line, s.Name)
}

// Sidecars lists the services of the task's Compose file but the one that the
// agent works in: "main", in an old task "client" or else the first by name. A
// task without such a file has none. A file that cannot be read is an error,
// since what it asks for would be missing without a word.
func (t *Task) Sidecars() ([]Sidecar, error) {
	file := "environment/" + legacyCompose
	if t.Format == FormatTerminalBench1 {
		file = legacyCompose
	}
	tr, err := openTree(t.Dir)
	if err != nil {
		return nil, err
	}
	text, err := tr.readText(file, maxConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := parseCompose(file, text)
	if err != nil {
		return nil, err
	}
	services, _ := doc.root["services"].(map[string]any)
	main := mainService
	if t.Format == FormatTerminalBench1 {
		main = legacyService(services)
	}
	var all []Sidecar
	for _, name := range sortedKeys(services) {
		if name != main {
			all = append(all, Sidecar{Name: name, File: file, Position: doc.place(key{"services", name})})
		}
	}
	return all, nil
}

// legacyService is "client", else the first by name.
func legacyService(services map[string]any) string {
	names := sortedKeys(services)
	for _, name := range names {
		if _, ok := services[name].(map[string]any); ok && name == "client" {
			return name
		}
	}
	for _, name := range names {
		if _, ok := services[name].(map[string]any); ok {
			return name
		}
	}
	return ""
}

package terminalbench

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/importer"
)

// service is what the Compose file says of the agent's container.
type service struct {
	context    string // of its build, relative to the task; "." where it says nothing
	dockerfile []byte // what is put to the end of its Dockerfile
}

// plainVolumes and plainEnv are what every task of Terminal-Bench 1 has.
var (
	plainVolumes = []string{"${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}", "${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}"}
	plainEnv     = "TEST_DIR=${T_BENCH_TEST_DIR}"
	inDockerfile = []string{"environment", "working_dir", "expose", "entrypoint", "platform", "build", "image", "container_name", "command", "volumes"}
	ours         = []string{"build", "image", "container_name", "command", "environment", "volumes", "deploy"}
)

// environment reads docker-compose.yaml. compose is the file that the task
// needs in Harbor's form; nil: its Dockerfile says all.
func environment(data []byte) (s service, compose []byte, err error) {
	s.context = "."
	s.dockerfile = []byte("\n# Of docker-compose.yaml\nENV TEST_DIR=/tests\n")
	if data == nil {
		return s, nil, nil
	}
	var file yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.UseOrderedMap()); err != nil {
		return s, nil, fmt.Errorf("docker-compose.yaml: %w", err)
	}
	services, _ := get(file, "services").(yaml.MapSlice)
	if len(services) == 0 {
		return s, nil, nil
	}
	name := fmt.Sprint(services[0].Key)
	main, _ := services[0].Value.(yaml.MapSlice)
	if c, ok := get(services, "client").(yaml.MapSlice); ok {
		name, main = "client", c
	}
	switch b := get(main, "build").(type) {
	case string:
		s.context = path.Clean(b)
	case yaml.MapSlice:
		if c, ok := get(b, "context").(string); ok {
			s.context = path.Clean(c)
		}
	}
	if !fs.ValidPath(s.context) {
		return s, nil, fmt.Errorf("docker-compose.yaml: build context %q is outside of the task", s.context)
	}
	s.dockerfile = append(s.dockerfile, additions(main)...)
	if len(services) == 1 && plain(file, main) {
		return s, nil, nil
	}
	compose, err = harbor(file, services, name, main)
	return s, compose, err
}

func get(m yaml.MapSlice, key string) any {
	for _, e := range m {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// plain reports whether a Dockerfile can say all that the file does.
func plain(file, main yaml.MapSlice) bool {
	for _, e := range file {
		if e.Key != "services" && e.Key != "version" {
			return false
		}
	}
	for _, e := range main {
		key, _ := e.Key.(string)
		if !slices.Contains(inDockerfile, key) {
			return false
		}
		if volumes, ok := e.Value.([]any); ok && key == "volumes" {
			for _, v := range volumes {
				if s, ok := v.(string); !ok || !slices.Contains(plainVolumes, s) {
					return false
				}
			}
		}
	}
	return true
}

// additions are the lines of a Dockerfile for what the service says.
func additions(main yaml.MapSlice) []byte {
	var b bytes.Buffer
	one := func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "\n", " ") }
	switch env := get(main, "environment").(type) {
	case []any:
		for _, v := range env {
			if s := one(v); s != plainEnv {
				fmt.Fprintf(&b, "ENV %s\n", s)
			}
		}
	case yaml.MapSlice:
		for _, e := range env {
			if s := one(e.Key) + "=" + one(e.Value); s != plainEnv {
				fmt.Fprintf(&b, "ENV %s\n", s)
			}
		}
	}
	if dir, ok := get(main, "working_dir").(string); ok && !strings.Contains(dir, "${") {
		fmt.Fprintf(&b, "WORKDIR %s\n", one(dir))
	}
	return b.Bytes()
}

// harbor is the Compose file as Harbor wants it: the agent's service is main.
func harbor(file, services yaml.MapSlice, name string, main yaml.MapSlice) ([]byte, error) {
	agent := yaml.MapSlice{
		{Key: "build", Value: yaml.MapSlice{{Key: "context", Value: "${CONTEXT_DIR}"}}}, {Key: "image", Value: "${MAIN_IMAGE_NAME}"},
		{Key: "command", Value: []string{"sh", "-c", "sleep infinity"}}, {Key: "environment", Value: []string{"TEST_DIR=${TEST_DIR}"}},
		{Key: "deploy", Value: yaml.MapSlice{{Key: "resources", Value: yaml.MapSlice{{Key: "limits", Value: yaml.MapSlice{{Key: "cpus", Value: "${CPUS}"}, {Key: "memory", Value: "${MEMORY}"}}}}}}},
	}
	for _, e := range main {
		if key, _ := e.Key.(string); !slices.Contains(ours, key) {
			agent = append(agent, e)
		}
	}
	all := yaml.MapSlice{{Key: "main", Value: agent}}
	for _, e := range services {
		if e.Key != name {
			all = append(all, e)
		}
	}
	out := yaml.MapSlice{{Key: "services", Value: all}}
	for _, e := range file {
		if e.Key != "services" && e.Key != "version" {
			out = append(out, e)
		}
	}
	b, err := yaml.Marshal(out)
	return bytes.ReplaceAll(b, []byte("${T_BENCH_TASK_DOCKER_NAME_PREFIX}"), []byte("hb")), err
}

// copies reports whether the Dockerfile of the build copies a name of the task.
func (s service) copies(name string, all map[string]importer.File) bool {
	d := string(all[path.Join(s.context, "Dockerfile")].Data)
	for _, verb := range []string{"COPY ", "ADD "} {
		if strings.Contains(d, verb+name) || strings.Contains(d, verb+"./"+name) {
			return true
		}
	}
	return false
}

package job

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/task"
)

// What a service runs is put together as Docker does it.
func TestArguments(t *testing.T) {
	c := image.Config{Entrypoint: []string{"/entry"}, Cmd: []string{"serve", "-v"}}
	for name, x := range map[string]struct {
		s    task.Service
		want string
	}{
		"image's":          {task.Service{}, "/entry serve -v"},
		"command":          {task.Service{Command: []string{"other"}}, "/entry other"},
		"entrypoint":       {task.Service{Entrypoint: []string{"sh"}}, "sh"},
		"both":             {task.Service{Entrypoint: []string{"sh"}, Command: []string{"-c", "x"}}, "sh -c x"},
		"empty command":    {task.Service{Command: []string{}}, "/entry"},
		"empty entrypoint": {task.Service{Entrypoint: []string{}, Command: []string{"x"}}, "x"},
	} {
		if got := strings.Join(arguments(x.s, c), " "); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

func TestMergeEnv(t *testing.T) {
	got := mergeEnv([]string{"A=1", "B=2"}, []string{"B=3", "C=4"})
	if want := []string{"A=1", "B=3", "C=4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

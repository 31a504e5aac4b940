package job

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
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

// A verdict that services which the agent had used took part in is no proof.
func TestKeptServicesProveNothing(t *testing.T) {
	tk := &task.Task{Dir: t.TempDir(), Name: "shop"}
	digest, err := task.Digest(tk.Dir)
	if err != nil {
		t.Fatal(err)
	}
	view := func(services string, outcomes ...trial.Outcome) *store.View {
		v := &store.View{}
		for _, o := range outcomes {
			one := &store.Trial{Task: tk.Name, Digest: digest}
			one.Record.Outcome = o
			one.Record.Modes = trial.Modes{Verifier: "sealed", Network: "none", VerifierNetwork: "none", Services: services}
			v.Trials = append(v.Trials, one)
		}
		return v
	}
	for services, want := range map[string]bool{"": true, trial.ServicesKept: false} {
		p, err := judge(tk, view(services, trial.Pass, trial.Pass, trial.Pass), view(services, trial.Fail), "test")
		if err != nil {
			t.Fatal(err)
		}
		if p.Proved != want || !want && !slices.ContainsFunc(p.Reasons, func(r string) bool { return strings.Contains(r, "beside services") }) {
			t.Errorf("services %q: %+v", services, p)
		}
	}
}

func TestMergeEnv(t *testing.T) {
	got := mergeEnv([]string{"A=1", "B=2"}, []string{"B=3", "C=4"})
	if want := []string{"A=1", "B=3", "C=4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

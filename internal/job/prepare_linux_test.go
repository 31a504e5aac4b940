package job

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/internal/image"
	"assay/internal/store"
	"assay/trial"
)

// Images are had before the first trial begins, each once; one that cannot be
// had ends its own trials, before any other, and alone.
func TestImagesComeFirst(t *testing.T) {
	w := newWorld(t)
	const digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	deps := w.deps()
	var mu sync.Mutex
	var fetched []string
	deps.Fetch = func(_ context.Context, ref string, tell func(done, total int64)) (image.Image, error) {
		mu.Lock()
		defer mu.Unlock()
		fetched = append(fetched, ref)
		tell(1, 2)
		if strings.HasPrefix(ref, "gone") {
			return image.Image{}, errors.New("the registry knows no such image")
		}
		img := w.host
		img.Digests = []string{"far@sha256:0000", "far@" + digest}
		return img, nil
	}
	named := func(ref string) files {
		return files{"task.toml": "[environment]\ndocker_image = \"" + ref + "\"\nworkdir = \"/app\"\n"}
	}
	c := w.config("first", []Arm{gold(), idle()}, w.task("a", named("far:1")), w.task("b", named("gone:1")), w.task("c", named("far:1")),
		w.task("d", files{"task.toml": "[environment]\nworkdir = \"/app\"\n", "environment/Dockerfile": "FROM far:1\nENV A=b\n"}),
		w.task("e", files{"task.toml": "[environment]\ndocker_image = \"far:2\"\nworkdir = \"/app\"\n[metadata.assay]\nfallback_image = \"host\"\n"}))
	sum, err := Run(t.Context(), c, deps)
	if err != nil || sum.Ran != 10 {
		t.Fatalf("%+v, %v", sum, err)
	}
	slices.Sort(fetched)
	if got := strings.Join(fetched, " "); got != "far:1 gone:1" {
		t.Errorf("fetched %q: each once, and nothing for a task that has a fallback", got)
	}
	v := w.view(c)
	for _, task := range []string{"a", "c", "d", "e"} {
		tr := trialOf(t, v, task, "oracle")
		w.want(tr, trial.CauseSolved, "")
		if want := map[string]string{"a": digest, "c": digest}[task]; tr.Record.Image.Digest != want {
			t.Errorf("%s ran on digest %q, want %q", task, tr.Record.Image.Digest, want)
		}
	}
	w.want(trialOf(t, v, "b", "oracle"), trial.CauseImageMissing, "gone:1 is not on this machine and could not be fetched: the registry knows no such image")
	w.want(trialOf(t, v, "b", "nop"), trial.CauseImageMissing, "gone:1")
	ready, lost := 0, 0
	for _, e := range v.Events {
		switch e.Kind {
		case trial.ImageReady:
			ready++
		case trial.TrialStarted:
			if ready != 4 {
				t.Fatalf("a trial began when %d of 4 images were settled", ready)
			}
			if task := v.Trials[slices.IndexFunc(v.Trials, func(tr *store.Trial) bool { return tr.Name == e.Trial })].Task; task == "b" {
				lost++
			} else if lost != 2 {
				t.Fatalf("a trial of %s began before those without an image had ended", task)
			}
		}
	}
	if lost != 2 {
		t.Errorf("%d trials ended for want of an image, want 2", lost)
	}
}

// The image of a separate verifier is looked for before the agent works.
func TestVerifiersImageComesFirst(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", files{"task.toml": taskTOML + "[verifier.environment]\ndocker_image = \"nowhere/judge\"\n[metadata.assay]\nverifier = \"separate\"\n"})
	tr := w.one(gold(), x)
	w.want(tr, trial.CauseImageMissing, "nowhere/judge")
	for _, p := range tr.Record.Phases {
		if p.Phase == trial.PhaseAgent {
			t.Error("the agent worked for a verifier that cannot be had")
		}
	}
}

// A survey says the same without doing anything.
func TestSurvey(t *testing.T) {
	w := newWorld(t)
	deps := SurveyDeps{
		Resolve: w.deps().Resolve,
		Bases:   func(context.Context, string) ([]string, error) { return []string{"far:1", "host"}, nil },
		Look: func(_ context.Context, ref string) (Remote, error) {
			if ref == "far:1" {
				return Remote{Bytes: 1000, Digest: "sha256:aa"}, nil
			}
			return Remote{}, errors.New("no such image")
		},
	}
	c := w.config("survey", []Arm{gold()}, w.task("a", nil),
		w.task("b", files{"task.toml": "[environment]\ndocker_image = \"gone:1\"\n"}),
		w.task("c", files{"task.toml": "\n", "environment/Dockerfile": "FROM far:1\n"}),
		w.task("d", files{"task.toml": "[environment]\ndocker_image = \"gone:1\"\n[metadata.assay]\nfallback_image = \"host\"\n"}),
		w.task("e", files{"task.toml": "[environment]\ndocker_image = \"far:1\"\n"}))
	show := func(deps SurveyDeps) string {
		t.Helper()
		needs, err := Survey(t.Context(), c, deps)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, n := range needs {
			name := n.Name
			if n.State == ImageBuild {
				name = "Dockerfile"
			}
			all = append(all, name+" "+string(n.State)+" "+strings.Join(n.Tasks, "+"))
		}
		if deps.Look != nil && (ToFetch(needs) != 1000 || RoomFor(needs) != 3500) {
			t.Errorf("%d bytes to fetch, room for %d", ToFetch(needs), RoomFor(needs))
		}
		return strings.Join(all, "; ")
	}
	if got, want := show(deps), "host present a+c; gone:1 missing b; Dockerfile build c; far:1 fetch c+e; gone:1 fallback d"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	deps.Look = nil
	if got, want := show(deps), "host present a+c; gone:1 missing b; Dockerfile build c; far:1 missing c+e; gone:1 fallback d"; got != want {
		t.Errorf("offline: %s\nwant %s", got, want)
	}
	c.Image = "host"
	if got, want := show(SurveyDeps{Resolve: deps.Resolve}), "host present a+b+c+d+e; Dockerfile build c"; got != want {
		t.Errorf("on another image: %s\nwant %s", got, want)
	}
}

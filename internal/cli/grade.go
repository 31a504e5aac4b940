package cli

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/agent/prediction"
	"assay/internal/exchange"
	"assay/internal/job"
	"assay/internal/sandbox"
	"assay/task"
)

// goldPredictions is what stands for a file of every task's own solution.
const goldPredictions = "gold"

type gradeCmd struct {
	Predictions string        `required:"" placeholder:"FILE" help:"Predictions: SWE-bench's .json or .jsonl, mini-swe-agent's preds.json, EvalPlus's or HumanEval's samples.jsonl; or the word gold."`
	Path        string        `short:"p" once:"" required:"" placeholder:"PATH" help:"The tasks that they are for: a task directory, or a directory of them."`
	Concurrent  int           `short:"n" default:"4" placeholder:"N" help:"Trials at once."`
	Out         string        `short:"o" default:"${jobs}" placeholder:"DIR" help:"Folder of jobs."`
	JobName     string        `name:"job-name" placeholder:"NAME" help:"The job is DIR/NAME. Default: the time."`
	Image       string        `placeholder:"NAME" help:"Grade every task on this image instead of its own."`
	Verifier    string        `enum:",sealed,separate,live" default:"" help:"Verifier mode for every task (sealed, separate, live) instead of its own."`
	Retries     int           `default:"2" placeholder:"N" help:"Retries of a trial lost to infrastructure."`
	UID         string        `name:"uid" enum:",single,subid,root" default:"" help:"User ids in sandboxes (see docs/uid-modes.md)."`
	MinFree     bytesFlag     `name:"min-free" default:"1G" placeholder:"SIZE" help:"Begin nothing while the disk has less room. 0: never pause."`
	Limit       time.Duration `name:"apply-timeout" default:"5m" placeholder:"DUR" help:"Time to lay one prediction on its tree."`
	Yes         bool          `short:"y" help:"Let tasks read the host variables they name with $${VAR}."`
	Quiet       bool          `short:"q" help:"No progress."`
	Report      bool          `negatable:"" default:"true" help:"Write the HTML report at the end."`
	registryFlags
	modelFlags
}

func (gradeCmd) Help() string {
	return `No agent runs: each prediction is laid on its task's tree and graded, and what comes out is an ordinary
job, one arm a model, for 'assay compare', 'assay report' and 'assay export'. A patch is applied as SWE-bench
does it; which try worked stands in the trial's result. A null or empty patch fails without being run.

Trials are known by the digest of their prediction: the same command again runs what is missing, and a job
never mixes two predictions of one model for one task. Several programs for one task are several attempts.

Examples:
  assay grade --predictions preds.json -p tasks/verified
  assay grade --predictions samples.jsonl -p tasks/humaneval -n 2 --job-name try1
  assay grade --predictions gold -p tasks/verified

Exit status: 0 every prediction has a verdict (whatever it is), 1 the job broke, 2 usage (an id that no task
has, a file that cannot be read), 3 some trials were lost to infrastructure, 130 interrupted.`
}

func (c *gradeCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	tasks, source, err := a.loadTasks(c.Path, 0)
	if err != nil {
		return err
	}
	m, err := a.armory(g, c.modelFlags)
	if err != nil {
		return err
	}
	defer m.Close()
	var arms []job.Arm
	if c.Predictions == goldPredictions {
		arms, err = m.grid([]string{"oracle"}, nil, armOptions{})
	} else {
		arms, tasks, err = predictedArms(c.Predictions, tasks)
	}
	if err != nil {
		return usage(err)
	}
	if c.Concurrent < 1 {
		return usagef("-n must be at least 1")
	}
	if err := a.allowHostEnv(tasks, c.Yes); err != nil {
		return err
	}
	name := c.JobName
	if name == "" {
		name = time.Now().Format("2006-01-02__15-04-05")
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return usagef("--job-name %q: must be one name without a leading dot", name)
	}
	cfg := job.Config{
		Source: source, Tasks: tasks, Arms: arms, Attempts: 1, Concurrent: c.Concurrent, Retries: retries(c.Retries),
		Image: c.Image, Verifier: task.VerifierMode(c.Verifier), UID: sandbox.UIDMode(c.UID), MinFree: int64(c.MinFree),
		AgentLimit: c.Limit, TimeoutMult: 1, Network: sandbox.NetNone,
	}
	if cfg.Dir, err = filepath.Abs(filepath.Join(c.Out, name)); err != nil {
		return err
	}
	if cfg.Path, err = filepath.Abs(c.Path); err != nil {
		return err
	}
	if err := cfg.Impossible(); err != nil {
		return usage(err)
	}
	return a.execute(ctx, g, cfg, execution{quiet: c.Quiet, report: c.Report, registries: c.registryFlags})
}

// predictedArms makes one arm of each model of a file, and leaves the tasks
// that at least one prediction is for.
func predictedArms(file string, tasks []*task.Task) ([]job.Arm, []*task.Task, error) {
	all, _, err := exchange.ReadPredictions(file)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s: no prediction in it", file)
	}
	ids, err := taskIDs(tasks)
	if err != nil {
		return nil, nil, err
	}
	var models []string
	wanted := map[*task.Task]bool{}
	for _, p := range all {
		t := ids[p.ID]
		if t == nil {
			return nil, nil, fmt.Errorf("%s:%d: no task is called %q: import its data set, or name other tasks with -p", file, p.Line, p.ID)
		}
		if t.MultiStep() {
			return nil, nil, fmt.Errorf("%s:%d: task %s has several steps, and a prediction is one", file, p.Line, t.Name)
		}
		wanted[t] = true
		if !slices.Contains(models, p.Model) {
			models = append(models, p.Model)
		}
	}
	var arms []job.Arm
	for _, name := range models {
		arm, err := predictedArm(file, name, all)
		if err != nil {
			return nil, nil, err
		}
		arms = append(arms, arm)
	}
	return arms, slices.DeleteFunc(slices.Clone(tasks), func(t *task.Task) bool { return !wanted[t] }), nil
}

// predictedArm is the arm of one model of a file of predictions.
func predictedArm(file, modelName string, all []exchange.Prediction) (job.Arm, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return job.Arm{}, err
	}
	by := map[string][]job.Given{}
	for _, p := range all {
		if p.Model == modelName {
			by[p.ID] = append(by[p.ID], job.Given{
				Digest: p.Digest(), Record: p.Raw, Empty: p.Kind == exchange.PredictsPatch && p.Empty(),
				Agent: prediction.New(p.Model, p.Digest(), prediction.Kind(p.Kind), p.Text),
			})
		}
	}
	return job.Arm{
		Spec: exchange.PredictionArm + modelName, From: exchange.PredictionArm + url.Values{"file": {abs}, "model": {modelName}}.Encode(),
		Agent: prediction.New(modelName, "", "", ""),
		Given: func(t *task.Task) []job.Given {
			for _, id := range idsOf(t) {
				if g := by[id]; g != nil {
					return g
				}
			}
			return nil
		},
	}, nil
}

// predictedAgain makes the arm of a job's configuration from the file as it is
// now; what changed in it is refused trial by trial.
func predictedAgain(spec string) (job.Arm, error) {
	v, err := url.ParseQuery(strings.TrimPrefix(spec, exchange.PredictionArm))
	if err != nil || v.Get("file") == "" {
		return job.Arm{}, fmt.Errorf("agent %q: not a file of predictions; 'assay grade --predictions FILE' makes such jobs", spec)
	}
	all, _, err := exchange.ReadPredictions(v.Get("file"))
	if err != nil {
		return job.Arm{}, fmt.Errorf("predictions of the job: %w", err)
	}
	return predictedArm(v.Get("file"), v.Get("model"), all)
}

// taskIDs finds tasks by all the ids that they go by elsewhere.
func taskIDs(tasks []*task.Task) (map[string]*task.Task, error) {
	by := map[string]*task.Task{}
	for _, t := range tasks {
		for _, id := range idsOf(t) {
			if other := by[id]; other != nil && other != t {
				return nil, fmt.Errorf("tasks %s and %s are both called %q elsewhere: name one of them alone with -p", other.Name, t.Name, id)
			}
			by[id] = t
		}
	}
	return by, nil
}

// idsOf are a task's names: its own, and those that its importer kept in
// [metadata].
func idsOf(t *task.Task) []string {
	ids := []string{t.Name, t.Name[strings.LastIndexByte(t.Name, '/')+1:]}
	for _, key := range []string{"instance_id", "task_id", "source"} {
		if id, ok := t.Config.Metadata.Rest[key].(string); ok && id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

package cli

import "github.com/alecthomas/kong"

const story = `Tasks for coding agents: proved, run in sandboxes, graded so that a score cannot be forged.

The commands stand in the order of the work: make or import tasks, prove them, run agents on them,
look at what came out.

  assay demo                                   the whole story in a minute, nothing needed
  assay run -p TASKS -a oracle -k 3            run an agent three times on every task
  assay job show JOB && assay view jobs        look at it
  assay compare JOB                            which agent is better, and how sure that is

Exit status: 0 done, 1 failed, 2 usage, 3 partial (trials lost to infrastructure), 4 a gate was not
met, 130 interrupted.`

// grammar is the command line, in the order of the story.
type grammar struct {
	JSON  bool   `help:"Print typed JSON lines on stdout instead of text."`
	Store string `help:"Where image layers are kept." placeholder:"DIR" env:"ASSAY_STORE"`
	Env   string `short:"e" name:"env" aliases:"backend" enum:",ns,docker" default:"" env:"ASSAY_BACKEND" help:"What sandboxes are made of: ns (namespaces of this machine; the default) or docker (containers of the engine at DOCKER_HOST)."`

	InheritMirrors *bool `negatable:"" env:"ASSAY_INHERIT_MIRRORS" help:"Show RUN of Dockerfiles this machine's certificates, package mirrors and their credentials, while it runs; never in a layer."`

	Offline bool `env:"ASSAY_OFFLINE" help:"Fetch no image: what is not on this machine is missing."`

	Demo demoCmd `cmd:"" group:"start" help:"Prove a few built-in tasks, run three agents on them, write a report."`

	Task    taskCmd    `cmd:"" group:"tasks" help:"Lint, show, scaffold and prove tasks."`
	Import  importCmd  `cmd:"" group:"tasks" help:"Turn a data set into task directories."`
	Repo    repoCmd    `cmd:"" group:"tasks" help:"Repositories that tasks are made of."`
	Forge   forgeCmd   `cmd:"" group:"tasks" help:"Make proved tasks of a repository, without a model."`
	Library libraryCmd `cmd:"" group:"tasks" help:"Sets of tasks: how they are spread, and what they lack."`
	Image   imageCmd   `cmd:"" group:"tasks" help:"Get, build, inspect and remove images."`

	Agent      agentCmd      `cmd:"" group:"runs" help:"List, install and try agents."`
	Run        runCmd        `cmd:"" group:"runs" help:"Run agents on tasks."`
	Grade      gradeCmd      `cmd:"" group:"runs" help:"Grade predictions that were made elsewhere; no agent runs."`
	Job        jobCmd        `cmd:"" group:"runs" help:"List, show, resume and remove jobs."`
	Model      modelCmd      `cmd:"" group:"runs" help:"Models: serve one without a model."`
	Gateway    gatewayCmd    `cmd:"" group:"runs" help:"Serve models to agents that run anywhere, and record every call."`
	Trajectory trajectoryCmd `cmd:"" group:"runs" help:"Check, print, count and convert what agents did."`
	Compare    compareCmd    `cmd:"" group:"runs" help:"Say which arm is better, by how much, or that the tasks cannot tell."`
	Export     exportCmd     `cmd:"" group:"runs" help:"Write a job as other people's formats: SWE-bench, JUnit XML, CSV."`
	Report     reportCmd     `cmd:"" group:"runs" help:"Write a job's self-contained HTML report."`
	View       viewCmd       `cmd:"" group:"runs" help:"Serve the pages of all jobs below a folder, live."`

	Sandbox    sandboxCmd    `cmd:"" group:"machine" help:"Open a shell in a sandbox, or measure it."`
	Doctor     doctorCmd     `cmd:"" group:"machine" help:"Say what this machine can do and how to mend what it cannot."`
	Completion completionCmd `cmd:"" group:"machine" help:"Print a completion script for a shell."`
	Version    versionCmd    `cmd:"" group:"machine" help:"Print the version."`
}

func groups() []kong.Group {
	return []kong.Group{
		{Key: "start", Title: "Start here:"},
		{Key: "tasks", Title: "Tasks and images:"},
		{Key: "runs", Title: "Runs and results:"},
		{Key: "machine", Title: "This machine:"},
	}
}

package task

// Config is task.toml, schema 1.4, after legacy spellings were translated.
// The zero value is a valid single-step configuration; a nil pointer or an
// empty string means that the file says nothing, and the default named at the
// field applies.
//
// Source of names and defaults: Harbor 0.25, models/task/config.py.
type Config struct {
	SchemaVersion   string       `json:"schema_version,omitempty"` // any text; "1.4" when the file says nothing
	Source          string       `json:"source,omitempty"`
	MultiStepReward RewardChoice `json:"multi_step_reward_strategy,omitempty"`
	Artifacts       []Artifact   `json:"artifacts,omitempty"`

	Task        *Package       `json:"task,omitempty"` // nil: the task is named after its directory
	Metadata    Metadata       `json:"metadata"`
	Agent       AgentConfig    `json:"agent"`
	Verifier    VerifierConfig `json:"verifier"`
	Environment Environment    `json:"environment"`
	Solution    SolutionConfig `json:"solution"`
	Steps       []StepConfig   `json:"steps,omitempty"` // empty: single-step
}

// SchemaVersion is what Write puts into a file that names no other.
const SchemaVersion = "1.4"

// RewardChoice says how the rewards of several steps become one.
type RewardChoice string

const (
	RewardUnset RewardChoice = ""     // mean
	RewardMean  RewardChoice = "mean" // per key, over the steps that have a verifier result
	RewardFinal RewardChoice = "final"
)

// Package is the [task] table: the task's name in a registry.
type Package struct {
	Name        string   `toml:"name" json:"name"` // "org/short"
	Version     string   `toml:"version,omitempty" json:"version,omitempty"`
	Description string   `toml:"description,omitempty" json:"description,omitempty"`
	Authors     []Author `toml:"authors,omitempty" json:"authors,omitempty"`
	Keywords    []string `toml:"keywords,omitempty" json:"keywords,omitempty"`
}

// Author is one of [task].authors.
type Author struct {
	Name  string `toml:"name" json:"name"`
	Email string `toml:"email,omitempty" json:"email,omitempty"`
}

// AgentConfig is [agent], of the task or of a step.
type AgentConfig struct {
	TimeoutSec   *float64    `toml:"timeout_sec,omitempty" json:"timeout_sec,omitempty"` // nil: no limit (a step: the task's)
	User         string      `toml:"user,omitempty" json:"user,omitempty"`               // name or uid; empty: the image's (a step: the task's)
	NetworkMode  NetworkMode `toml:"network_mode,omitempty" json:"network_mode,omitempty"`
	AllowedHosts []string    `toml:"allowed_hosts,omitempty" json:"allowed_hosts,omitempty"`
}

// VerifierConfig is [verifier], of the task or of a step.
type VerifierConfig struct {
	// TimeoutSec is 600 when nil, in a step too: Harbor never falls back to
	// the task's value, although its documentation promises it.
	TimeoutSec      *float64          `toml:"timeout_sec,omitempty" json:"timeout_sec,omitempty"`
	User            string            `toml:"user,omitempty" json:"user,omitempty"`
	NetworkMode     NetworkMode       `toml:"network_mode,omitempty" json:"network_mode,omitempty"`
	AllowedHosts    []string          `toml:"allowed_hosts,omitempty" json:"allowed_hosts,omitempty"`
	EnvironmentMode EnvironmentMode   `toml:"environment_mode,omitempty" json:"environment_mode,omitempty"`
	Env             map[string]string `toml:"env,omitempty" json:"env,omitempty"`
	Environment     *Environment      `toml:"environment,omitempty" json:"environment,omitempty"` // implies separate
	Collect         []CollectHook     `toml:"collect,omitempty" json:"collect,omitempty"`
}

// EnvironmentMode is Harbor's word for where the verifier runs.
type EnvironmentMode string

const (
	EnvironmentUnset    EnvironmentMode = ""
	EnvironmentShared   EnvironmentMode = "shared"
	EnvironmentSeparate EnvironmentMode = "separate"
)

// CollectHook is one [[verifier.collect]] entry: a command run after the agent.
type CollectHook struct {
	Command    string   `toml:"command" json:"command"`
	Service    string   `toml:"service,omitempty" json:"service,omitempty"`         // empty: "main"
	TimeoutSec *float64 `toml:"timeout_sec,omitempty" json:"timeout_sec,omitempty"` // nil: 60
	User       string   `toml:"user,omitempty" json:"user,omitempty"`
}

// SolutionConfig is [solution].
type SolutionConfig struct {
	Env map[string]string `toml:"env,omitempty" json:"env,omitempty"`
}

// OS is the operating system of a task's container.
type OS string

const (
	OSUnset   OS = "" // linux
	OSLinux   OS = "linux"
	OSWindows OS = "windows"
)

// Environment is [environment] or [verifier.environment]. Resources default to
// unset, never to a number.
type Environment struct {
	DockerImage     string            `toml:"docker_image,omitempty" json:"docker_image,omitempty"` // wins over a Dockerfile
	BuildTimeoutSec *float64          `toml:"build_timeout_sec,omitempty" json:"build_timeout_sec,omitempty"`
	OS              OS                `toml:"os,omitempty" json:"os,omitempty"`
	CPUs            *float64          `toml:"cpus,omitempty" json:"cpus,omitempty"`
	MemoryMB        *int64            `toml:"memory_mb,omitempty" json:"memory_mb,omitempty"`   // MiB
	StorageMB       *int64            `toml:"storage_mb,omitempty" json:"storage_mb,omitempty"` // MiB
	GPUs            *int64            `toml:"gpus,omitempty" json:"gpus,omitempty"`
	GPUTypes        []string          `toml:"gpu_types,omitempty" json:"gpu_types,omitempty"`
	TPU             *TPU              `toml:"tpu,omitempty" json:"tpu,omitempty"`
	NetworkMode     NetworkMode       `toml:"network_mode,omitempty" json:"network_mode,omitempty"` // Harbor's default is public
	AllowedHosts    []string          `toml:"allowed_hosts,omitempty" json:"allowed_hosts,omitempty"`
	Workdir         string            `toml:"workdir,omitempty" json:"workdir,omitempty"`
	SkillsDir       string            `toml:"skills_dir,omitempty" json:"skills_dir,omitempty"`
	Env             map[string]string `toml:"env,omitempty" json:"env,omitempty"`
	Healthcheck     *Healthcheck      `toml:"healthcheck,omitempty" json:"healthcheck,omitempty"`
	MCPServers      []MCPServer       `toml:"mcp_servers,omitempty" json:"mcp_servers,omitempty"`
}

// TPU is [environment.tpu].
type TPU struct {
	Type     string `toml:"type" json:"type"`
	Topology string `toml:"topology" json:"topology"` // "2x4"
}

// Healthcheck mirrors Docker's HEALTHCHECK.
type Healthcheck struct {
	Command          string   `toml:"command" json:"command"`
	IntervalSec      *float64 `toml:"interval_sec,omitempty" json:"interval_sec,omitempty"`             // nil: 5
	TimeoutSec       *float64 `toml:"timeout_sec,omitempty" json:"timeout_sec,omitempty"`               // nil: 30
	StartPeriodSec   *float64 `toml:"start_period_sec,omitempty" json:"start_period_sec,omitempty"`     // nil: 0
	StartIntervalSec *float64 `toml:"start_interval_sec,omitempty" json:"start_interval_sec,omitempty"` // nil: 5
	Retries          *int64   `toml:"retries,omitempty" json:"retries,omitempty"`                       // nil: 3
}

// MCPTransport is how an MCP server is spoken to.
type MCPTransport string

const (
	MCPUnset MCPTransport = "" // sse
	MCPSSE   MCPTransport = "sse"
	MCPHTTP  MCPTransport = "streamable-http" // "http" is read as this
	MCPStdio MCPTransport = "stdio"
)

// MCPServer is one [[environment.mcp_servers]] entry.
type MCPServer struct {
	Name      string            `toml:"name" json:"name"`
	Transport MCPTransport      `toml:"transport,omitempty" json:"transport,omitempty"`
	URL       string            `toml:"url,omitempty" json:"url,omitempty"`         // sse and streamable-http
	Command   string            `toml:"command,omitempty" json:"command,omitempty"` // stdio
	Args      []string          `toml:"args,omitempty" json:"args,omitempty"`
	Headers   map[string]string `toml:"headers,omitempty" json:"headers,omitempty"` // with ${VAR} not yet resolved
}

// Artifact is one artifacts entry: what is copied out of the agent's sandbox.
type Artifact struct {
	Source      string   `toml:"source" json:"source"`                               // path in the sandbox, no ".."
	Destination string   `toml:"destination,omitempty" json:"destination,omitempty"` // below artifacts/; empty: mirrors Source
	Exclude     []string `toml:"exclude,omitempty" json:"exclude,omitempty"`         // tar globs
	Service     string   `toml:"service,omitempty" json:"service,omitempty"`         // empty: "main"
}

// StepConfig is one [[steps]] entry.
type StepConfig struct {
	Name        string             `toml:"name" json:"name"`
	MinReward   map[string]float64 `toml:"min_reward,omitempty" json:"min_reward,omitempty"` // a plain number stands under "reward"
	Artifacts   []Artifact         `toml:"artifacts,omitempty" json:"artifacts,omitempty"`   // beside the task's
	Agent       AgentConfig        `toml:"agent,omitempty" json:"agent"`
	Verifier    VerifierConfig     `toml:"verifier,omitempty" json:"verifier"`
	Healthcheck *Healthcheck       `toml:"healthcheck,omitempty" json:"healthcheck,omitempty"` // beside the environment's
}

// Metadata is the free [metadata] table, with assay's own part typed.
type Metadata struct {
	Assay Assay
	Rest  map[string]any // everything but "assay", as the TOML library decodes it
}

// Assay is [metadata.assay]: what Harbor has no field for.
type Assay struct {
	Grade         GradeKind      // empty: state
	FallbackImage string         // used, aloud, when the task's own image is not here
	Protected     []string       // absolute paths restored from the task before a state is graded
	Answer        []string       // absolute paths of the files that an agent without tools answers with
	Verifier      VerifierMode   // empty: what [verifier].environment_mode says
	Rest          map[string]any // keys of this table that are not assay's, kept
}

func (a Assay) isZero() bool {
	return a.Grade == "" && a.FallbackImage == "" && a.Protected == nil && a.Answer == nil && a.Verifier == "" && len(a.Rest) == 0
}

// table gives the [metadata] table back, assay's part in its place.
func (m Metadata) table() map[string]any {
	t := make(map[string]any, len(m.Rest)+1)
	for k, v := range m.Rest {
		t[k] = v
	}
	if m.Assay.isZero() {
		return t
	}
	a := make(map[string]any, len(m.Assay.Rest)+4)
	for k, v := range m.Assay.Rest {
		a[k] = v
	}
	set := func(key, value string) {
		if value != "" {
			a[key] = value
		}
	}
	set("grade", string(m.Assay.Grade))
	set("fallback_image", m.Assay.FallbackImage)
	set("verifier", string(m.Assay.Verifier))
	if m.Assay.Protected != nil {
		a["protected"] = m.Assay.Protected
	}
	if m.Assay.Answer != nil {
		a["answer"] = m.Assay.Answer
	}
	t["assay"] = a
	return t
}

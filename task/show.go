package task

import "math"

// Show is a task at a glance, for "task show --json". Nothing of the key's
// content is in it.
type Show struct {
	Name        string            `json:"name"`
	Dir         string            `json:"dir"`
	Format      Format            `json:"format"`
	Schema      string            `json:"schema_version"`
	Version     string            `json:"version,omitempty"`
	Description string            `json:"description,omitempty"`
	Keywords    []string          `json:"keywords,omitempty"`
	Digest      string            `json:"digest"`
	Grade       GradeKind         `json:"grade"`
	Steps       []ShowStep        `json:"steps"`
	Resources   ShowResources     `json:"resources"`
	Image       ShowImage         `json:"image"`
	Env         map[string]string `json:"env,omitempty"`      // references not yet resolved
	HostEnv     []string          `json:"host_env,omitempty"` // variables of this machine that the task reads
	Protected   []string          `json:"protected"`
	Metadata    Metadata          `json:"metadata"`
}

// ShowStep is one step; limits are in seconds, null when there is none.
type ShowStep struct {
	Name             string             `json:"name,omitempty"`
	Instruction      string             `json:"instruction"`
	AgentTimeout     *float64           `json:"agent_timeout_sec"`
	AgentUser        string             `json:"agent_user,omitempty"`
	AgentNetwork     ShowNetwork        `json:"agent_network"`
	VerifierTimeout  *float64           `json:"verifier_timeout_sec"`
	VerifierUser     string             `json:"verifier_user,omitempty"`
	VerifierNetwork  ShowNetwork        `json:"verifier_network"`
	VerifierMode     VerifierMode       `json:"verifier_mode,omitempty"` // what the task asks for
	VerifierBundled  bool               `json:"verifier_bundled,omitempty"`
	VerifierImage    string             `json:"verifier_image,omitempty"`
	Solution         bool               `json:"solution"`
	Artifacts        []Artifact         `json:"artifacts,omitempty"`
	MinReward        map[string]float64 `json:"min_reward,omitempty"`
	MultiStepRewards RewardChoice       `json:"multi_step_reward_strategy,omitempty"`
}

// ShowNetwork is a policy; mode is empty when the task says nothing.
type ShowNetwork struct {
	Mode  NetworkMode `json:"mode,omitempty"`
	Allow []string    `json:"allowed_hosts,omitempty"`
}

// ShowResources is what the environment asks for; null means unset.
type ShowResources struct {
	CPUs         *float64 `json:"cpus"`
	MemoryMB     *int64   `json:"memory_mb"`
	StorageMB    *int64   `json:"storage_mb"`
	GPUs         *int64   `json:"gpus"`
	GPUTypes     []string `json:"gpu_types,omitempty"`
	TPU          *TPU     `json:"tpu,omitempty"`
	BuildTimeout *float64 `json:"build_timeout_sec"`
}

// ShowImage says where the environment's image comes from.
type ShowImage struct {
	Docker   string `json:"docker_image,omitempty"`
	BuiltIn  string `json:"built_in,omitempty"` // directory with the Dockerfile
	Fallback string `json:"fallback_image,omitempty"`
	OS       OS     `json:"os"`
	Workdir  string `json:"workdir,omitempty"`
}

// Show reads the digest and sums the task up.
func (t *Task) Show() (Show, error) {
	digest, err := Digest(t.Dir)
	if err != nil {
		return Show{}, err
	}
	c, e := &t.Config, &t.Config.Environment
	s := Show{
		Name: t.Name, Dir: t.Dir, Format: t.Format, Schema: cmpOr(c.SchemaVersion, SchemaVersion),
		Digest: digest, Grade: t.Grade(), Env: e.Env, Metadata: c.Metadata,
		Protected: protected(c.Metadata.Assay.Protected),
		Resources: ShowResources{
			CPUs: e.CPUs, MemoryMB: e.MemoryMB, StorageMB: e.StorageMB, GPUs: e.GPUs,
			GPUTypes: e.GPUTypes, TPU: e.TPU, BuildTimeout: finite(e.BuildTimeoutSec),
		},
		Image: ShowImage{
			Docker: e.DockerImage, BuiltIn: t.ImageDir(), Fallback: c.Metadata.Assay.FallbackImage,
			OS: OS(cmpOr(string(e.OS), string(OSLinux))), Workdir: e.Workdir,
		},
	}
	if c.Task != nil {
		s.Version, s.Description, s.Keywords = c.Task.Version, c.Task.Description, c.Task.Keywords
	}
	for _, env := range []map[string]string{e.Env, c.Verifier.Env, c.Solution.Env} {
		for _, v := range HostVariables(env) {
			s.HostEnv = append(s.HostEnv, v.Name)
		}
	}
	for i := range t.Steps {
		s.Steps = append(s.Steps, t.showStep(i))
	}
	return s, nil
}

func (t *Task) showStep(i int) ShowStep {
	b, k := t.Brief(i), t.Key(i)
	s := ShowStep{
		Name: b.Step, Instruction: b.Instruction,
		AgentUser: b.User, AgentNetwork: ShowNetwork(b.Network),
		VerifierUser: k.User, VerifierNetwork: ShowNetwork(k.Network),
		VerifierMode: k.Mode, VerifierBundled: k.Bundled, VerifierImage: k.Image,
		Solution:  k.Solution != "" || len(k.SolutionFiles) > 0,
		Artifacts: k.Artifacts, MinReward: k.MinReward,
	}
	if b.Timeout > 0 {
		f := b.Timeout.Seconds()
		s.AgentTimeout = &f
	}
	if k.Timeout < forever {
		f := k.Timeout.Seconds()
		s.VerifierTimeout = &f
	}
	if t.MultiStep() {
		s.MultiStepRewards = RewardChoice(cmpOr(string(t.Config.MultiStepReward), string(RewardMean)))
	}
	return s
}

// finite drops what JSON cannot hold.
func finite(f *float64) *float64 {
	if f == nil || math.IsNaN(*f) || math.IsInf(*f, 0) {
		return nil
	}
	return f
}

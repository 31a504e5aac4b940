package task

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

var (
	anyText  = rapid.StringMatching(`[ -~äß\n\t"'\\]{0,12}`)
	fullText = rapid.StringMatching(`[ -~äß"'\\]{1,12}`)
	word1    = rapid.StringMatching(`[a-z]{1,8}`)
	number1  = rapid.OneOf(rapid.Float64Range(-1e6, 1e9), rapid.Just(math.Inf(1)), rapid.Just(600.0))
	envMap   = rapid.MapOfN(fullText, anyText, 0, 3)
)

func maybe[V any](t *rapid.T, g *rapid.Generator[V], label string) *V {
	if !rapid.Bool().Draw(t, label+" set") {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

func some[V any](t *rapid.T, label string, draw func(*rapid.T) V) []V {
	var out []V
	for range rapid.IntRange(0, 2).Draw(t, label) {
		out = append(out, draw(t))
	}
	return out
}

func network(t *rapid.T) (NetworkMode, []string) {
	mode := rapid.SampledFrom([]NetworkMode{NetworkUnset, NetworkPublic, NetworkNone, NetworkAllowlist}).Draw(t, "mode")
	if mode != NetworkAllowlist {
		return mode, nil
	}
	return mode, rapid.SliceOfN(rapid.SampledFrom([]string{"example.com", "*.example.org", "10.0.0.0/8", "2001:db8::1"}), 1, 3).Draw(t, "hosts")
}

func drawEnvironment(t *rapid.T) Environment {
	e := Environment{
		DockerImage: rapid.SampledFrom([]string{"", "debian:12"}).Draw(t, "image"), BuildTimeoutSec: maybe(t, number1, "build"),
		OS: rapid.SampledFrom([]OS{OSUnset, OSLinux, OSWindows}).Draw(t, "os"), CPUs: maybe(t, rapid.Float64Range(0, 64), "cpus"),
		MemoryMB: maybe(t, rapid.Int64(), "memory"), StorageMB: maybe(t, rapid.Int64(), "storage"), GPUs: maybe(t, rapid.Int64Range(0, 8), "gpus"),
		GPUTypes: rapid.SliceOfN(word1, 0, 2).Draw(t, "types"), Workdir: anyText.Draw(t, "workdir"), SkillsDir: anyText.Draw(t, "skills"), Env: envMap.Draw(t, "env"),
	}
	e.NetworkMode, e.AllowedHosts = network(t)
	if rapid.Bool().Draw(t, "tpu") {
		e.TPU = &TPU{Type: "v6e", Topology: "2x4"}
	}
	e.Healthcheck = drawHealth(t)
	e.MCPServers = some(t, "servers", func(t *rapid.T) MCPServer {
		if rapid.Bool().Draw(t, "stdio") {
			return MCPServer{Name: anyText.Draw(t, "name"), Transport: MCPStdio, Command: fullText.Draw(t, "command"), Args: rapid.SliceOfN(anyText, 0, 2).Draw(t, "args")}
		}
		return MCPServer{Name: anyText.Draw(t, "name"), Transport: MCPHTTP, URL: "http://x", Headers: map[string]string{"X-A": "b", "Authorization": "Bearer ${T}"}}
	})
	return e
}

func drawHealth(t *rapid.T) *Healthcheck {
	if rapid.Bool().Draw(t, "no health") {
		return nil
	}
	return &Healthcheck{Command: anyText.Draw(t, "check"), IntervalSec: maybe(t, number1, "interval"), Retries: maybe(t, rapid.Int64(), "retries"), StartPeriodSec: maybe(t, number1, "period")}
}

func drawAgent(t *rapid.T) AgentConfig {
	a := AgentConfig{TimeoutSec: maybe(t, number1, "agent timeout"), User: anyText.Draw(t, "user")}
	a.NetworkMode, a.AllowedHosts = network(t)
	return a
}

func drawVerifier(t *rapid.T) VerifierConfig {
	v := VerifierConfig{TimeoutSec: maybe(t, number1, "verifier timeout"), User: anyText.Draw(t, "user"), Env: envMap.Draw(t, "env")}
	v.NetworkMode, v.AllowedHosts = network(t)
	if v.EnvironmentMode = rapid.SampledFrom([]EnvironmentMode{EnvironmentUnset, EnvironmentShared, EnvironmentSeparate}).Draw(t, "mode"); v.EnvironmentMode != EnvironmentShared {
		if rapid.Bool().Draw(t, "environment") {
			e := drawEnvironment(t)
			v.Environment = &e
		}
	}
	v.Collect = some(t, "hooks", func(t *rapid.T) CollectHook {
		return CollectHook{Command: anyText.Draw(t, "command"), Service: rapid.SampledFrom([]string{"", "db"}).Draw(t, "service"), TimeoutSec: maybe(t, number1, "timeout"), User: word1.Draw(t, "user")}
	})
	return v
}

func drawArtifacts(t *rapid.T) []Artifact {
	return some(t, "artifacts", func(t *rapid.T) Artifact {
		return Artifact{Source: "/" + word1.Draw(t, "source"), Destination: rapid.SampledFrom([]string{"", "a/b"}).Draw(t, "to"), Exclude: rapid.SliceOfN(anyText, 0, 2).Draw(t, "exclude"), Service: rapid.SampledFrom([]string{"", "main", "db"}).Draw(t, "service")}
	})
}

// drawValue makes anything that may stand in the free table.
func drawValue(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 8).Draw(t, "kind"); {
	case n == 0:
		return anyText.Draw(t, "text")
	case n == 1:
		return rapid.Int64().Draw(t, "int")
	case n == 2:
		return number1.Draw(t, "float")
	case n == 3:
		return rapid.Bool().Draw(t, "bool")
	case n == 4:
		return toml.LocalDate{Year: 2026, Month: 2, Day: rapid.IntRange(1, 28).Draw(t, "day")}
	case n == 5:
		return time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	case n == 6 && depth < 3:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, depth+1))
		}
		return list
	case n == 7 && depth < 3:
		return drawTable(t, depth+1)
	}
	return "x"
}

func drawTable(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		m[fullText.Draw(t, "key")] = drawValue(t, depth)
	}
	delete(m, "assay")
	return m
}

func drawConfig(t *rapid.T) Config {
	c := Config{
		SchemaVersion: rapid.SampledFrom([]string{"1.0", "1.4"}).Draw(t, "schema"), Source: anyText.Draw(t, "source"),
		MultiStepReward: rapid.SampledFrom([]RewardChoice{RewardUnset, RewardMean, RewardFinal}).Draw(t, "reward"),
		Artifacts:       drawArtifacts(t), Agent: drawAgent(t), Verifier: drawVerifier(t), Environment: drawEnvironment(t),
		Solution: SolutionConfig{Env: envMap.Draw(t, "env")}, Metadata: Metadata{Rest: drawTable(t, 0)},
	}
	if rapid.Bool().Draw(t, "package") {
		c.Task = &Package{Name: "org/name", Version: "1", Description: anyText.Draw(t, "description"), Authors: []Author{{Name: anyText.Draw(t, "author")}}, Keywords: rapid.SliceOfN(anyText, 0, 2).Draw(t, "keywords")}
	}
	if rapid.Bool().Draw(t, "assay") {
		c.Metadata.Assay = Assay{Grade: GradePatch, FallbackImage: word1.Draw(t, "fallback"), Protected: []string{"/etc"}, Answer: []string{"/app/a.py"}, Verifier: VerifierSealed, Rest: map[string]any{"own": drawValue(t, 1)}}
	}
	for _, name := range rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b c"}}).Draw(t, "steps") {
		c.Steps = append(c.Steps, StepConfig{
			Name: name, Agent: drawAgent(t), Verifier: drawVerifier(t), Healthcheck: drawHealth(t), Artifacts: drawArtifacts(t),
			MinReward: rapid.MapOfN(fullText, number1, 0, 2).Draw(t, "min"),
		})
	}
	return c
}

// What is written reads back as the same, whatever it is.
func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		text, err := c.Encode()
		if err != nil {
			t.Fatalf("%v\n%+v", err, c)
		}
		back, err := ParseConfig(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := cmp.Diff(c, back, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); d != "" {
			t.Fatalf("(-written +read):\n%s\n%s", d, text)
		}
	})
}

// The corpus, written and read again, is the same task; so is a config that was
// written with legacy spellings.
func TestCorpusRoundTrip(t *testing.T) {
	for _, dir := range corpus(t) {
		task, err := Load(dir)
		if err != nil {
			continue
		}
		text, err := task.Config.Encode()
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		back, err := ParseConfig(text)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		want := task.Config
		want.SchemaVersion = cmpOr(want.SchemaVersion, SchemaVersion)
		if d := cmp.Diff(want, back, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", dir, d)
		}
	}
}

func TestEncodeRefusesWhatHarborRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"name":    {Task: &Package{Name: "no slash"}},
		"step":    {Steps: []StepConfig{{Name: "a/b"}}},
		"hosts":   {Agent: AgentConfig{NetworkMode: NetworkNone, AllowedHosts: []string{"x"}}},
		"grade":   {Metadata: Metadata{Assay: Assay{Grade: "guess"}}},
		"collect": {Verifier: VerifierConfig{Collect: []CollectHook{{Command: "c", Service: "a b"}}}},
	} {
		if _, err := c.Encode(); err == nil || !strings.Contains(err.Error(), "encode") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

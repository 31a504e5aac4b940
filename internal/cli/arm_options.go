package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/model"
	"assay/internal/model/catalog"
)

// armOptions are how an arm asks its model. They are kept with the job, and
// hold no secrets.
type armOptions struct {
	Name      string           `toml:"-" json:"name,omitempty"`
	Effort    string           `toml:"effort" json:"effort,omitempty"`         // of reasoning, as the agent spells it
	NoRetries bool             `toml:"no_retries" json:"no_retries,omitempty"` // the agent's own retries off
	Sampling  model.Sampling   `toml:"sampling" json:"sampling,omitzero"`      // set in every call, whatever the agent says
	Grant     []string         `toml:"grant" json:"grant,omitempty"`           // tools that run at the provider
	Patience  catalog.Duration `toml:"patience" json:"patience,omitempty"`     // for a provider short of room
	Capture   bool             `toml:"capture_tokens" json:"capture_tokens,omitempty"`
	NoLoops   bool             `toml:"no_loop_stop" json:"no_loop_stop,omitempty"` // let an agent repeat itself
	URL       string           `toml:"url" json:"url,omitempty"`                   // instead of the model's own
	KeyEnv    string           `toml:"key_env" json:"key_env,omitempty"`           // variable of the credential, instead of the model's own
}

func (o armOptions) empty() bool { return reflect.DeepEqual(o, armOptions{}) }

// modelFlags are how a command that runs agents is told of models.
type modelFlags struct {
	Models string `name:"models" env:"ASSAY_MODELS" placeholder:"FILE" help:"The models file: where models answer, and where their credentials are found. Default: models.toml beside the user's configuration of assay."`
}

// talkFlags are how the arms of a grid ask their models.
type talkFlags struct {
	Patience  time.Duration `placeholder:"DUR" help:"Wait so long, in all, for a provider that is short of room; the agent's clock stands still."`
	Pin       []string      `placeholder:"KEY=VALUE" help:"Set a generation parameter in every call, whatever the agent says: temperature, top_p, top_k, max_tokens, seed, effort. Repeatable."`
	GrantTool []string      `name:"grant-tool" placeholder:"NAME" help:"Let models use a tool that runs at the provider, such as web_search; others are withheld. Repeatable; * for all."`
	Effort    string        `placeholder:"WORD" help:"Ask agents for this effort of reasoning, by their own switches."`
	NoRetries bool          `name:"no-agent-retries" help:"Switch the agents' own retries off, where they have a switch."`
	NoLoops   bool          `name:"no-loop-stop" help:"Let agents repeat themselves."`
	Capture   bool          `name:"capture-tokens" help:"Ask providers for token ids and log-probabilities, and record them; agents do not see them."`

	MaxTokens    int64   `name:"max-tokens" placeholder:"N" help:"Tokens, in and out, that one trial may use."`
	MaxCost      float64 `name:"max-cost" placeholder:"USD" help:"US dollars that one trial may cost; needs a price in the models file."`
	MaxJobTokens int64   `name:"max-job-tokens" placeholder:"N" help:"Tokens that the job may use; then it ends, and can be resumed."`
	MaxJobCost   float64 `name:"max-job-cost" placeholder:"USD" help:"US dollars that the job may cost; then it ends, and can be resumed."`
}

// options are those of every arm of a grid.
func (f talkFlags) options() (armOptions, error) {
	o := armOptions{
		Effort: f.Effort, NoRetries: f.NoRetries, Grant: f.GrantTool, Patience: catalog.Duration(f.Patience), Capture: f.Capture, NoLoops: f.NoLoops,
	}
	if f.Patience < 0 || f.MaxTokens < 0 || f.MaxCost < 0 || f.MaxJobTokens < 0 || f.MaxJobCost < 0 {
		return o, fmt.Errorf("a limit is negative")
	}
	var err error
	o.Sampling, err = parsePins(f.Pin)
	return o, err
}

// parsePins reads KEY=VALUE pairs by the names that a models file has for them.
func parsePins(pins []string) (s model.Sampling, err error) {
	words := []string{"temperature", "top_p", "top_k", "max_tokens", "seed", "effort"}
	values := map[string]any{}
	for _, p := range pins {
		key, value, ok := strings.Cut(p, "=")
		if !ok || !slices.Contains(words, key) || value == "" {
			return s, fmt.Errorf("--pin %q: it is KEY=VALUE with a KEY of %s", p, strings.Join(words, ", "))
		}
		if key == "effort" {
			values[key] = value
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return s, fmt.Errorf("--pin %q: %q is no number", p, value)
		}
		values[key] = n
	}
	b, err := json.Marshal(values)
	if err != nil {
		return s, fmt.Errorf("--pin: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("--pin: %w", err)
	}
	return s, nil
}

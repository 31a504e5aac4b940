package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/internal/model/catalog"
)

type modelCmd struct {
	List  modelListCmd  `cmd:"" help:"List the models of the models file."`
	Check modelCheckCmd `cmd:"" help:"Ask models a word, and find out what they speak."`
	Serve modelServeCmd `cmd:"" help:"Serve a model without a model, from a script, to try agents with."`
}

type modelListCmd struct{ modelFlags }

func (modelListCmd) Help() string {
	return `The models file says where models answer, what they cost, and where their credentials are found; it holds
none itself. It is ~/.config/assay/models.toml, or the one named by --models or ASSAY_MODELS:

  [models.gpt]                                  # what -m says
  id = "gpt-5.1"                                # what its provider says; without it, the same
  url = "https://api.example.com/v1"
  dialects = ["responses", "chat"]              # also messages, gemini; without it, 'model check' finds out
  credential = { env = "EXAMPLE_KEY" }          # or file = "…", or command = ["…"], with ttl = "50m"
  price = { input = 1.25, cached = 0.125, output = 10.0 }  # US dollars for a million tokens
  context = 400000

docs/models.md tells of the other keys: headers, ca, client_cert, proxy, azure, sampling, limits, no_tools,
and how Bedrock and Vertex are reached.

Examples:
  assay model list
  assay model list --json | jq -r 'select(.credential_found|not).name'

Exit status: 0, 2 when the file cannot be read; its line is named.`
}

// listed is a model as it is printed.
type listedModel struct {
	catalog.Entry
	Found *bool `json:"credential_found"` // null: it needs none
}

func (c *modelListCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	cat, err := a.openCatalog(c.modelFlags)
	if err != nil {
		return err
	}
	if cat.Path == "" {
		a.say("there is no models file (%s); 'assay model list --help' shows one", a.modelsFile())
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	if !g.JSON && len(cat.Entries) > 0 {
		fmt.Fprintln(tw, "MODEL\tPROVIDER\tANSWERS AT\tDIALECTS\tCONTEXT\tPRICE IN/OUT\tCREDENTIAL")
	}
	for _, e := range cat.Entries {
		m := listedModel{Entry: e}
		if e.Credential != nil {
			// A command is not run for a list: it may open a browser.
			_, err := (&credential{a: a, from: *e.Credential, name: e.Name}).find(ctx)
			found := err == nil || len(e.Credential.Command) > 0
			m.Found = &found
		}
		if g.JSON {
			if err := a.emit("model", m); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(tw, strings.Join([]string{e.Name, orDash(e.Provider), e.Where(), spokenList(e.Dialects), tokens(e.Context), price(e.Price), m.credential()}, "\t"))
	}
	return tw.Flush()
}

func (m listedModel) credential() string {
	switch c := m.Entry.Credential; {
	case c == nil:
		return "none"
	case len(c.Command) > 0:
		return "of a command"
	case !*m.Found:
		return "MISSING"
	case c.Env != "":
		return "$" + c.Env
	}
	return "of a file"
}

func spokenList(ds []model.Dialect) string {
	if len(ds) == 0 {
		return "unknown"
	}
	return dialectList(ds)
}

func tokens(n int64) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

func price(p *catalog.Price) string {
	if !p.Known() {
		return "unknown"
	}
	return fmt.Sprintf("$%g/$%g", *p.Input, *p.Output)
}

type modelCheckCmd struct {
	Models []string `arg:"" optional:"" name:"model" help:"Models, as -m names them. Default: all of the models file."`
	modelFile
}

// modelFile is modelFlags beside an argument called models.
type modelFile struct {
	File string `name:"models" env:"ASSAY_MODELS" placeholder:"FILE" help:"The models file."`
}

func (modelCheckCmd) Help() string {
	return `Asks each model for one word, streamed, in each dialect that it may speak, and says what came of it. What it
speaks is kept for models whose entry does not say so. A check costs a few tokens.

Examples:
  assay model check gpt
  assay model check --json | jq -r 'select(.error).name'

Exit status: 0, 4 when a model answers in no dialect, 2 usage.`
}

// checked is what came of asking a model in a dialect.
type checked struct {
	Name     string        `json:"name"`
	Dialect  model.Dialect `json:"dialect"`
	Answered bool          `json:"answered"`
	First    *float64      `json:"first_byte_ms"`
	Millis   float64       `json:"ms"`
	Usage    *model.Usage  `json:"usage"` // null: it does not say
	CostUSD  *float64      `json:"cost_usd"`
	Error    *model.Error  `json:"error"`
}

func (c *modelCheckCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	m, err := a.armory(g, modelFlags{c.File})
	if err != nil {
		return err
	}
	defer m.Close()
	var entries []catalog.Entry
	for _, name := range c.Models {
		e, err := m.catalog.Find(name)
		if err != nil {
			return usage(err)
		}
		entries = append(entries, e)
	}
	if len(c.Models) == 0 {
		entries = m.catalog.Entries
	}
	if len(entries) == 0 {
		return usagef("there is no model to check; name one, or write a models file ('assay model list --help')")
	}
	silent := 0
	known := a.readSpoken()
	for _, e := range entries {
		var spoken []model.Dialect
		ask := e.Dialects
		if len(ask) == 0 {
			ask = model.Dialects()
		}
		ask = slices.DeleteFunc(slices.Clone(ask), func(d model.Dialect) bool { return codecs()[d] == nil })
		for _, d := range ask {
			r, err := m.switches.check(ctx, e, d)
			if err != nil {
				return fmt.Errorf("check model %s: %w", e.Name, err)
			}
			if r.Answered {
				spoken = append(spoken, d)
			}
			if err := a.showCheck(g, r); err != nil {
				return err
			}
		}
		if len(spoken) == 0 {
			silent++
			continue
		}
		known[e.Where()] = spoken
	}
	if err := a.writeSpoken(known); err != nil {
		return err
	}
	if silent > 0 {
		return gate(fmt.Errorf("%d of %d models answer in no dialect", silent, len(entries)))
	}
	return nil
}

func (a *app) showCheck(g *grammar, r checked) error {
	if g.JSON {
		return a.emit("model-check", r)
	}
	switch {
	case r.Answered && r.Usage != nil:
		fmt.Fprintf(a.Stdout, "%s  %s  answers in %.0f ms, and says what it used\n", r.Name, r.Dialect, r.Millis)
	case r.Answered:
		fmt.Fprintf(a.Stdout, "%s  %s  answers in %.0f ms, without saying what it used: limits of tokens are estimates\n", r.Name, r.Dialect, r.Millis)
	default:
		fmt.Fprintf(a.Stdout, "%s  %s  no answer: %v\n", r.Name, r.Dialect, r.Error)
	}
	return nil
}

// checkLimit is how long a model may think about one word.
const checkLimit = 2 * time.Minute

// check asks a model for a word in one dialect, on the way that agents have.
func (s *switchboard) check(ctx context.Context, e catalog.Entry, d model.Dialect) (checked, error) {
	r := checked{Name: e.Name, Dialect: d}
	ctx, stop := context.WithTimeout(ctx, checkLimit)
	defer stop()
	e.Dialects = []model.Dialect{d}
	up, err := s.upstream(e, armOptions{})
	if err != nil {
		return r, err
	}
	one := *up
	one.Dialects = e.Dialects
	dir, err := os.MkdirTemp("", "assay-check-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	var call gateway.Call
	sess, err := s.gw.Open(gateway.SessionConfig{Trial: "check", Dir: filepath.Join(dir, "model"), Upstream: &one, Model: e.ModelID(), OnCall: func(c gateway.Call) { call = c }})
	if err != nil {
		return r, err
	}
	most := int64(64)
	client := model.Client{Codec: codecs()[d], Base: sess.Base(), Key: sess.Key(), Transport: sess.Transport(), Tries: 1}
	_, asked := client.Complete(ctx, model.Request{
		Model: e.ModelID(), Stream: true, Usage: true, Sampling: model.Sampling{MaxTokens: &most},
		Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Kind: model.PartText, Text: "Say: yes"}}}},
	})
	if _, err := sess.Close(); err != nil {
		return r, err
	}
	r.Answered, r.First, r.Millis, r.Usage, r.CostUSD, r.Error = asked == nil && call.Err == nil, call.First, call.Millis, call.Usage, call.CostUSD, call.Err
	if asked != nil && r.Error == nil {
		r.Error = &model.Error{Kind: model.ErrMalformed, Message: asked.Error()}
	}
	return r, nil
}

// spokenFile keeps what models were found to speak, by where they answer;
// empty: there is no place for it.
func (a *app) spokenFile() string {
	if dir := a.env("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "assay", "dialects.json")
	}
	if home := a.env("HOME"); home != "" {
		return filepath.Join(home, ".cache", "assay", "dialects.json")
	}
	return ""
}

func (a *app) readSpoken() map[string][]model.Dialect {
	known := map[string][]model.Dialect{}
	b, err := os.ReadFile(a.spokenFile())
	if err == nil && json.Unmarshal(b, &known) != nil {
		known = map[string][]model.Dialect{} // it is found out again
	}
	return known
}

func (a *app) writeSpoken(known map[string][]model.Dialect) error {
	file := a.spokenFile()
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(file, append(b, '\n'), 0o600)
}

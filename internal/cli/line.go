package cli

import (
	"context"
	"net"
	"time"

	"assay/internal/agent"
	"assay/internal/gateway"
	"assay/internal/gateway/atif"
	"assay/internal/job"
	"assay/internal/model"
	"assay/internal/model/catalog"
	"assay/trajectory"
	"assay/trial"
)

// line is the job's way to a gateway's session.
type line struct {
	s       *gateway.Session
	entry   catalog.Entry
	dialect model.Dialect // that the agent is to speak
	dir     string        // of the record
}

// Endpoint implements job.Line.
func (l *line) Endpoint() agent.Endpoint {
	return agent.Endpoint{
		URL: l.s.Base(), Dialect: string(l.dialect), Model: l.entry.ModelID(), Key: l.s.Key(), Transport: l.s.Transport(),
		NoTools: l.entry.NoTools, Window: l.entry.Context, MaxOutput: l.entry.MaxOutput,
	}
}

// Serve implements job.Line.
func (l *line) Serve(ctx context.Context, c net.Conn) { l.s.Serve(ctx, c) }

// Stop implements job.Line.
func (l *line) Stop(why model.ErrorKind) {
	l.s.Stop(gateway.Stop{Kind: why, Message: "the time of this trial is over"})
}

// Close implements job.Line.
func (l *line) Close() error {
	_, err := l.s.Close()
	return err
}

// limits are the stops that end an agent before its time, and their causes.
func limits() map[model.ErrorKind]trial.Cause {
	return map[model.ErrorKind]trial.Cause{model.ErrBudget: trial.CauseBudget, model.ErrLoop: trial.CauseLoop}
}

// stopped passes a stop of the session's own on.
func (l *line) stopped(s gateway.Stop, tell func(trial.Cause, string)) {
	if c, ok := limits()[s.Kind]; ok && tell != nil {
		tell(c, s.Message)
	}
}

// told passes on what a call used.
func told(c gateway.Call, tell func(trial.Usage, int64)) {
	if tell != nil && (c.Usage != nil || c.Status == 200 && c.Dialect != "") {
		tell(usageOf(c.Usage, c.CostUSD), (c.Bytes+c.Answered)/bytesPerToken)
	}
}

// bytesPerToken is what a token is taken to be where a provider does not say
// what it used; the gateway does so, too.
const bytesPerToken = 4

func usageOf(u *model.Usage, cost *float64) trial.Usage {
	if u == nil {
		return trial.Usage{CostUSD: cost}
	}
	return trial.Usage{InputTokens: u.Input, CacheTokens: u.Cached, OutputTokens: u.Output, CostUSD: cost}
}

// Said implements job.Line.
func (l *line) Said() (job.Said, error) {
	sum := l.s.Summary()
	said := job.Said{
		Calls: sum.Calls + sum.Side, Usage: usageOf(&sum.Usage, sum.CostUSD), Failed: sum.LastError,
		Asked: milliseconds(sum.Model), Waited: milliseconds(sum.Waited),
	}
	if st := sum.Stop; st != nil {
		said.Stopped, said.Detail = limits()[st.Kind], st.Message
	}
	if said.Calls > 0 {
		said.ByModel = map[string]trial.Usage{l.entry.Name: said.Usage}
	}
	rec, err := gateway.Read(l.dir)
	if err != nil {
		return said, err
	}
	defer rec.Close()
	for _, c := range rec.Calls() {
		if c.Side == "" && c.Err == nil {
			said.Last, said.Malformed, said.Answered = c.Stop, c.Malformed > 0, true
		}
	}
	return said, nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Trajectory implements job.Line.
func (l *line) Trajectory(info trial.AgentInfo, brief string) (*trajectory.Trajectory, error) {
	rec, err := gateway.Read(l.dir)
	if err != nil {
		return nil, err
	}
	defer rec.Close()
	return atif.FromRecord(info, brief, rec, codecs(), atif.Options{Session: l.s.ID()})
}

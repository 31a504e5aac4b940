package atif

import (
	"errors"
	"fmt"

	"assay/internal/gateway"
	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

// FromRecord makes a document of what a session recorded, one call in memory
// at a time. It is nil when no call was part of the work. A call whose bodies
// are lost is listed as one that could not be read.
func FromRecord(info trial.AgentInfo, brief string, r *gateway.Record, codecs model.Codecs, o Options) (*trajectory.Trajectory, error) {
	a := New(info, brief, o)
	if err := each(r, codecs, a.Add); err != nil {
		return nil, err
	}
	for _, n := range a.nodes {
		if !beside(n) {
			return a.Document()
		}
	}
	return nil, nil
}

// MissingOf is [Missing] for a record. A record without a call of the work says
// nothing of a document: the agent's own recorder wrote it.
func MissingOf(r *gateway.Record, codecs model.Codecs, doc *trajectory.Trajectory) ([]string, error) {
	var all []gateway.Exchange
	work := false
	err := each(r, codecs, func(x gateway.Exchange) {
		all = append(all, x)
		work = work || x.Asked != nil && x.Side == ""
	})
	if err != nil || !work {
		return nil, err
	}
	return Missing(all, doc), nil
}

func each(r *gateway.Record, codecs model.Codecs, f func(gateway.Exchange)) error {
	for _, c := range r.Calls() {
		x, err := r.Exchange(c.Seq, codecs)
		if errors.Is(err, gateway.ErrNoRecord) {
			x = gateway.Exchange{Call: c}
		} else if err != nil {
			return fmt.Errorf("recorded call %d: %w", c.Seq, err)
		}
		f(x)
	}
	return nil
}

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
	for _, c := range r.Calls() {
		x, err := r.Exchange(c.Seq, codecs)
		if errors.Is(err, gateway.ErrNoRecord) {
			x = gateway.Exchange{Call: c}
		} else if err != nil {
			return nil, fmt.Errorf("trajectory of recorded calls: %w", err)
		}
		a.Add(x)
	}
	for _, n := range a.nodes {
		if !beside(n) {
			return a.Document()
		}
	}
	return nil, nil
}

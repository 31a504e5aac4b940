package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/trial"
)

func TestFollow(t *testing.T) {
	defer goleak.VerifyNone(t)
	j, names := makeJob(t, 2, Options{}) // three events: started, planned, planned
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(50 * time.Millisecond)
		do(t, j, names[0], trial.CauseSolved)
		if err := j.Announce(trial.JobFinished, "", 0, struct{}{}); err != nil {
			t.Error(err)
		}
	})
	var seqs []uint64
	for e, err := range Follow(ctx, j.Dir(), 2) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
		if e.Kind == trial.JobFinished {
			break
		}
	}
	wg.Wait()
	for i, s := range seqs {
		if s != uint64(i+2) {
			t.Fatalf("seqs %v", seqs)
		}
	}
	if len(seqs) != 5 {
		t.Errorf("%d events, want 5", len(seqs))
	}
}

// A line that a crash tore and a recovery replaced is read as it is after.
func TestFollowOverATornLine(t *testing.T) {
	j, _ := makeJob(t, 1, Options{})
	edit(t, j, func(b []byte) []byte { return append(b, []byte(`{"v":1,"seq":3,"kind":"to`)...) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var kinds []trial.Kind
	for e, err := range Follow(ctx, j.Dir(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
		if e.Seq == 2 {
			k, _, err := Open(j.Dir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			if err := k.Announce(trial.Noted, "", 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		if e.Seq == 3 {
			break
		}
	}
	if len(kinds) != 3 || kinds[2] != trial.Noted {
		t.Errorf("%v", kinds)
	}
}

func TestFollowEnds(t *testing.T) {
	j, _ := makeJob(t, 1, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	for _, err := range Follow(ctx, j.Dir(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	for _, err := range Follow(t.Context(), t.TempDir(), 1) {
		if err == nil {
			t.Fatal("an event out of nothing")
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	failed := false
	for _, err := range Follow(ctx, j.Dir(), 1) {
		if err != nil {
			failed = true
			break
		}
		if err := os.WriteFile(filepath.Join(j.Dir(), EventsFile), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !failed {
		t.Error("a replaced log was not noticed")
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add([]byte(`{"v":1,"seq":1,"time":"2026-03-04T05:06:07Z","kind":"job.started","data":{"id":"x"}}` + "\n"))
	f.Add([]byte("{\"v\":1,\"seq\":2,\"kind\":\"trial.finished\",\"trial\":\"a\",\"data\":[]}\nrubbish\n\x00\x00"))
	f.Add([]byte(`{"v":1,"seq":18446744073709551615,"kind":"x"}` + "\n" + `{"v":1,"seq":1,"kind":"y"}` + "\n{"))
	f.Fuzz(func(t *testing.T, log []byte) {
		all, err := parseEvents(bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		if all.total != int64(len(log)) || all.good > all.total {
			t.Fatalf("%d of %d bytes, %d good", all.total, len(log), all.good)
		}
		l := newLedger()
		for _, e := range all.events {
			l.fold(e)
		}
		// What is left after cutting reads the same, with nothing to cut.
		again, err := parseEvents(bytes.NewReader(log[:all.good]))
		if err != nil || len(again.events) != len(all.events) || again.good != again.total {
			t.Fatalf("%d events, then %d (%v)", len(all.events), len(again.events), err)
		}
	})
}

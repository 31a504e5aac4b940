package forge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A record that was being written when the process was killed is cut off, and
// the next one follows the last whole one.
func TestLedgerAfterAKill(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger.ndjson")
	l, err := openLedger(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openLedger(name); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("two forges at once: %v", err)
	}
	for _, k := range []string{"a", "b"} {
		if err := l.append(Record{Key: k, Stage: StageRejected, Why: whyMasked}); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(b, `{"key":"c","sta`...), 0o644); err != nil {
		t.Fatal(err)
	}
	if l, err = openLedger(name); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.find("c"); ok || len(l.all) != 2 {
		t.Errorf("%+v", l.all)
	}
	if err := l.append(Record{Key: "c", Stage: StageAdmitted}); err != nil {
		t.Fatal(err)
	}
	l.close()
	if l, err = openLedger(name); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if r, ok := l.find("c"); !ok || r.Stage != StageAdmitted || len(l.all) != 3 {
		t.Errorf("%+v", l.all)
	}
}

// A ledger that is none is refused by line.
func FuzzLedger(f *testing.F) {
	f.Add([]byte(`{"key":"a","stage":"rejected"}` + "\n" + `{"key"`))
	f.Add([]byte("no\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "l")
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := openLedger(name)
		if err != nil {
			if !strings.Contains(err.Error(), "line ") {
				t.Error(err)
			}
			return
		}
		l.close()
	})
}

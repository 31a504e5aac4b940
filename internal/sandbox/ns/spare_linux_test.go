package ns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/sandbox"
)

// settledMounts waits until the keeper has made and removed in the background
// what it will, and counts its mounts: one for each volume in memory.
func settledMounts(t testing.TB, b *Backend) int {
	t.Helper()
	last, same := -1, 0
	for range 600 {
		n := mountsOf(t, b.cmd.Process.Pid)
		if same++; n != last {
			last, same = n, 0
		}
		if same == 12 {
			return n
		}
		time.Sleep(5 * dropPause)
	}
	t.Fatal("the keeper mounts and unmounts without an end")
	return 0
}

// mountsTill waits, for a busy machine, till the keeper's mounts are as they
// should be, and counts them.
func mountsTill(t testing.TB, b *Backend, right func(n int) bool) (n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if n = settledMounts(t, b); right(n) {
			break
		}
	}
	return n
}

// Trees that are made before somebody asks are empty, lie upon what is asked
// for, are not more than one for each ground, and go with it.
func TestSpareTrees(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	for _, disk := range []int64{0, 64 << 40} {
		t.Run(fmt.Sprint("disk limit ", disk), func(t *testing.T) {
			spec := sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{DiskBytes: disk}}
			create := func(from sandbox.Snapshot) sandbox.Sandbox {
				t.Helper()
				spec := spec
				spec.From = from
				s, err := b.Create(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			for range 3 { // from now on there is a spare tree upon the image
				if err := create("").Close(); err != nil {
					t.Fatal(err)
				}
			}
			free := settledMounts(t, b)
			s := create("")
			before := settledMounts(t, b) // root lends its binds as mounts
			var snaps []sandbox.Snapshot
			for i := range 3 {
				script(t, s, fmt.Sprintf("echo %d > /gen; echo > /f%d", i, i))
				snap, err := s.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				snaps = append(snaps, snap)
			}
			for round := range 4 {
				for i, snap := range snaps {
					f := create(snap)
					want := fmt.Sprintf("%d\n%d", i, i+1)
					if got := script(t, f, "cat /gen; ls / | grep -c ^f; echo > /f9; rm -rf /gen"); got != want {
						t.Errorf("round %d, fork of snapshot %d: %q, want %q", round, i, got, want)
					}
					if err := f.Close(); err != nil {
						t.Error(err)
					}
					if err := s.Reset(t.Context(), snap); err != nil {
						t.Fatal(err)
					}
					if got := script(t, s, "cat /gen; ls / | grep -c ^f; echo > /f8; rm /gen"); got != want {
						t.Errorf("round %d, reset to snapshot %d: %q, want %q", round, i, got, want)
					}
				}
				settledMounts(t, b)
			}
			// The frozen volumes, and at most a spare tree upon each.
			if most := before + 2*len(snaps); disk == 0 {
				if n := mountsTill(t, b, func(n int) bool { return n <= most }); n > most {
					t.Errorf("the keeper holds %d volumes, more than %d", n, most)
				}
			}
			for _, snap := range snaps {
				if err := b.Drop(snap); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if after := mountsTill(t, b, func(n int) bool { return n <= free }); after > free {
				t.Errorf("%d mounts when the snapshots are gone, %d before them", after, free)
			}
		})
	}
}

// A volume that was made for another limit holds this one.
func TestSpareTreesHaveTheirLimit(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	for i, limit := range []int64{64, 4, 64, 64, 4, 4, 64} {
		s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{DiskBytes: limit << 20, Inodes: limit * 8}})
		if err != nil {
			t.Fatal(err)
		}
		got := script(t, s, `head -c 16M /dev/zero > /f && echo held || echo full; rm -f /f
			mkdir /d; for i in $(seq 100); do echo -n > /d/$i || break; done; ls /d | wc -l`)
		lines := strings.Fields(got)
		if len(lines) == 0 || (lines[0] == "held") != (limit == 64) || (lines[len(lines)-1] == "100") != (limit == 64) {
			t.Errorf("sandbox %d of %d MiB: %q", i, limit, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		settledMounts(t, b)
	}
}

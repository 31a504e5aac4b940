package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/examples"
)

// stage lays a task out in a root of its own (a user and mount namespace, the
// system's tools read-only), runs work there step by step, and then the tests.
// It is what a harness does, without any of assay. $1 is the new root, $2 the
// task, $3 the worker (gold, nop or a script).
const stage = `
set -e
root=$1 task=$2 worker=$3
mount -t tmpfs none "$root"
for d in usr bin sbin lib lib32 lib64; do
	if [ -L "/$d" ]; then cp -P "/$d" "$root/$d"
	elif [ -d "/$d" ]; then mkdir "$root/$d"; mount --rbind "/$d" "$root/$d"; fi
done
mkdir -p "$root/etc" "$root/tmp" "$root/dev" "$root/app" "$root/logs/verifier"
for d in null zero; do : >"$root/dev/$d"; mount --bind "/dev/$d" "$root/dev/$d"; done
[ ! -e /etc/alternatives ] || cp -RP /etc/alternatives "$root/etc/"
sed -n 's/^COPY //p' "$task/environment/Dockerfile" | while read -r from to; do
	mkdir -p "$root$to"; cp -R "$task/environment/$from." "$root$to"
done
inside() { (cd "$root/app" && chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin sh -c "cd /app && $1"); }
judge() { # TESTS...
	rm -rf "$root/tests" "$root/solution"; mkdir "$root/tests"
	for t in "$@"; do cp -R "$t/." "$root/tests/"; done
	inside /tests/test.sh || true
	echo "REWARD $(cat "$root/logs/verifier/reward.txt")"
	rm -rf "$root/tests" "$root/logs/verifier/reward.txt"
}
work() { # SOLUTION
	case $worker in
	gold) cp -R "$1" "$root/solution"; inside /solution/solve.sh ;;
	nop) ;;
	*) # The steps of a script agent that are meant for this task, each a shell.
		rm -rf "$root/tmp/steps"; mkdir "$root/tmp/steps"
		awk -v dir="$root/tmp/steps/" -v task="${task##*/}" '
			/^# step:/ { n++; keep = 1 }
			/^# task:/ { keep = $3 == task }
			n && keep && !/^# / { print > (dir sprintf("%02d", n)) }' "$worker"
		for s in "$root"/tmp/steps/*; do
			inside "sh /tmp/steps/${s##*/}" || echo "the step ended with $?"
		done ;;
	esac
}
if [ -d "$task/steps" ]; then
	for step in $(sed -n 's/^name = "\([a-z]*\)"$/\1/p' "$task/task.toml"); do
		work "$task/steps/$step/solution"; judge "$task/tests" "$task/steps/$step/tests"
	done
else
	work "$task/solution"; judge "$task/tests"
fi
`

func rewards(t *testing.T, task, worker string) []string {
	t.Helper()
	cmd := exec.Command("sh", "-c", stage, "stage", t.TempDir(), task, worker)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s with %s: %v\n%s", filepath.Base(task), worker, err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if r, ok := strings.CutPrefix(line, "REWARD "); ok {
			got = append(got, strings.TrimSpace(r))
		}
	}
	t.Logf("%s with %s:\n%s", filepath.Base(task), filepath.Base(worker), out)
	return got
}

func TestDemoTasks(t *testing.T) {
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	if err := probe.Run(); err != nil {
		t.Skipf("no user and mount namespaces here: %v", err)
	}
	dir, tasks := demoTasks(t)
	// What the scripted solver gets, step by step: about half.
	partial := map[string][]string{
		"config-regression": {"0"},
		"csv-total":         {"1"},
		"log-rotate":        {"0"},
		"relay-config":      {"1"},
		"stock-report":      {"1", "0"},
	}
	for _, task := range tasks {
		name := filepath.Base(task)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := partial[name]
			if got := rewards(t, task, "gold"); len(got) != len(want) || slices.Contains(got, "0") {
				t.Errorf("gold: %v", got)
			}
			if got := rewards(t, task, "nop"); len(got) != len(want) || slices.Contains(got, "1") {
				t.Errorf("doing nothing: %v", got)
			}
			if got := rewards(t, task, filepath.Join(dir, examples.PartialSolver)); !slices.Equal(got, want) {
				t.Errorf("the scripted solver: %v, want %v", got, want)
			}
		})
	}
}

package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/grade/report"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// maven is a warm JVM beside one that compiles. The suite's own command says once
// how it compiles and how Surefire starts its JVM; from then on a change costs the
// compiler's work on its file and the tests that pass the changed statement, in a
// fresh loader of classes over libraries that stay loaded.
type maven struct {
	d     *Decider
	c     *command
	s     *server
	limit time.Duration // of a run's tests, once the healthy ones have run
	cpu   float64       // seconds of the processor's time that a run may use
	other driver        // for changes of what is no Java source
}

// mavenGround is what all places where a command's changes are decided start from.
type mavenGround struct {
	once sync.Once
	snap sandbox.Snapshot
	err  error
}

func takesMaven(c *command) bool {
	return c.Build == "" && c.Driver == "maven" && c.Report == "junit"
}

func takesGradle(c *command) bool { return c.Driver == "gradle" }

func noGradle(context.Context, *Decider, *command) (driver, error) {
	return nil, errors.New("no warm JVM knows how Gradle runs tests")
}

// forkDied is what Surefire says when tested code ends its JVM.
const forkDied = "The forked VM terminated"

const mavenHome = "/tmp/.assay-maven"

var mavenPrograms = []string{"MavenAgent.java", "MavenCover.java", "MavenFace.java", "MavenJSON.java", "MavenJUnit4.java", "MavenJVM.java", "MavenLoader.java",
	"MavenPlatform.java", "MavenProbe.java", "MavenProject.java", "MavenServer.java", "MavenWorker.java"}

// mavenRun is what the server is asked.
type mavenRun struct {
	Op      string            `json:"op"`
	Want    []string          `json:"want"`
	Changed map[string][]byte `json:"files_b64"`
	Root    string            `json:"root"`
	Stop    bool              `json:"stop"`
	Last    string            `json:"last"`
	Limit   float64           `json:"limit"` // seconds
	CPU     float64           `json:"cpu"`
	Least   float64           `json:"least"` // of it, that a part of the tests may use in any case
}

// mavenAnswer is what it says. Chosen are the tests of those asked for whose class
// passes what is changed; missing: it is not known.
type mavenAnswer struct {
	Ready   string      `json:"ready"`
	Fault   string      `json:"fault"`
	Cold    string      `json:"cold"` // why it does not know what a change does
	Results [][3]string `json:"results"`
	Running string      `json:"running"`
	Ended   bool        `json:"ended"`
	Timed   bool        `json:"timed"`
	Broken  string      `json:"broken"`
	Crashed string      `json:"crashed"`
	Signal  string      `json:"signal"`
	Dirty   bool        `json:"dirty"` // what it left in the tree would be seen by the next
	Chosen  *[]string   `json:"chosen"`
	Millis  float64     `json:"ms"`
	CPU     float64     `json:"cpu"` // seconds that the JVM of the tests took
}

func newMaven(ctx context.Context, d *Decider, c *command) (driver, error) {
	g := d.jvms[c.Name]
	g.once.Do(func() { g.snap, g.err = learnMaven(ctx, d, c) })
	if g.err != nil {
		return nil, g.err
	}
	m := &maven{d: d, c: c}
	if err := m.start(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

var mavenModules = regexp.MustCompile(`<modules>\s*<module>`)

// learnMaven makes the state in which the command has said how it is done, and its
// healthy tests have run once, watched.
func learnMaven(ctx context.Context, d *Decider, c *command) (sandbox.Snapshot, error) {
	pom, err := d.tree.ReadFile(path.Join(string(d.dir(c)), "pom.xml"), maxFile)
	if err != nil {
		return "", fmt.Errorf("where it runs: %w", err)
	}
	if mavenModules.Match(pom) {
		return "", errors.New("a project of several modules")
	}
	sb, err := d.box(ctx)
	if err != nil {
		return "", err
	}
	defer sb.Close()
	if err := d.putPrograms(ctx, sb, mavenPrograms...); err != nil {
		return "", err
	}
	// Not by PATH, nor by Surefire's own setting: a project may name its JVM.
	run := exported(c.Run, `JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS-} -javaagent:`+mavenHome+`/agent.jar=`+mavenHome+`"`,
		`MAVEN_OPTS="${MAVEN_OPTS-} -Dorg.slf4j.simpleLogger.log.org.apache.maven.plugin.compiler=debug"`)
	profile := ""
	if strings.HasPrefix(c.Run, etcProfile) {
		profile = etcProfile + "; "
	}
	// Sources that are newer than their classes have Maven compile, and say how.
	line := profile + `h=` + mavenHome + `; mkdir -p $h/call && cd ` + inside + ` &&
` + mavenJava("javac") + ` -nowarn -d $h/classes MavenAgent.java MavenServer.java MavenCover.java MavenFace.java MavenJSON.java MavenJVM.java MavenLoader.java MavenProbe.java MavenProject.java MavenWorker.java 2>&1 &&
echo 'Premain-Class: assayjvm.MavenAgent' >$h/manifest && ` + mavenJava("jar") + ` cfm $h/agent.jar $h/manifest -C $h/classes assayjvm/MavenAgent.class || exit 1
cd ` + repo.Quote(string(d.dir(c))) + `
find . -name .git -prune -o -path ./target -prune -o -name '*.java' -type f -exec touch {} +
( ` + run + "\n" + `) >$h/log 2>&1 </dev/null
` + mavenJava("java") + ` -cp $h/classes assayjvm.MavenServer $h learn ` + inside
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{Args: []string{"/bin/sh", "-c", line}, Env: c.variables(), Dir: d.dir(c), User: c.User},
		sandbox.ExecOptions{Timeout: 4*d.limit(c) + startTime, Cap: maxReport})
	if err != nil {
		return "", err
	}
	var a mavenAnswer
	for line := range strings.Lines(string(res.Stdout)) {
		if said, ok := strings.CutPrefix(line, mark); ok {
			if err := json.Unmarshal([]byte(said), &a); err != nil {
				return "", err
			}
		}
	}
	switch {
	case a.Fault != "":
		return "", errors.New(clip(a.Fault, 2000))
	case a.Ready == "":
		return "", fmt.Errorf("it cannot be learnt (status %d): %s", res.Exit.Code, ending(slices.Concat(res.Stdout, res.Stderr)))
	}
	return sb.Snapshot(ctx)
}

// mavenJava is a program of the JDK that Maven uses.
func mavenJava(name string) string { return `"${JAVA_HOME:+$JAVA_HOME/bin/}` + name + `"` }

// start has a server run the healthy suite as changes are decided.
func (m *maven) start(ctx context.Context) error {
	sb, err := m.d.c.Backend.Create(ctx, m.d.spec(m.d.jvms[m.c.Name].snap))
	if err != nil {
		return err
	}
	profile := ""
	if strings.HasPrefix(m.c.Run, etcProfile) {
		profile = etcProfile + "; "
	}
	run := profile + "exec " + mavenJava("java") + " -cp " + mavenHome + "/classes assayjvm.MavenServer " + mavenHome + " serve"
	if m.s, err = startIn(ctx, sb, m.d, m.c, run); err != nil {
		return err
	}
	if m.cpu > 0 {
		return nil // it was healthy before
	}
	m.limit = m.d.limit(m.c)
	r := &request{tests: m.c.tests}
	cpu := m.d.c.Floor.Seconds() / 2
	for _, times := range []float64{2, 3} { // in a JVM that is new, and in one that is warm
		a, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		o := m.outcome(a)
		if failed, _, _ := failures(r, o); o.broken != "" || o.timedOut || len(failed) > 0 {
			return fmt.Errorf("warm: %d of %d stable tests do not pass%s %s%s", len(failed), len(r.tests), example(failed), clip(o.broken+o.crashed, 500), clip(o.output, 500))
		}
		if a.Dirty {
			return errors.New("its healthy tests change files of the project")
		}
		cpu = max(cpu, times*a.CPU)
	}
	m.cpu = cpu
	m.limit = max(m.d.c.Floor, time.Duration(3*m.cpu*float64(time.Second)))
	return nil
}

func (m *maven) ask(ctx context.Context, r *request) (a mavenAnswer, err error) {
	q := mavenRun{Op: "run", Want: ids(r.tests), Root: m.d.c.Env.Workdir, Stop: r.stop, Last: r.last, Limit: m.limit.Seconds(), CPU: m.cpu, Least: m.d.c.Floor.Seconds() / 2, Changed: r.changed()}
	release := m.d.turn(r.alone)
	defer release()
	// With the compiler's work, which has no limit of its own.
	if err := m.s.ask(ctx, q, &a, 2*m.limit+m.d.limit(m.c)+2*startTime); err != nil {
		return a, err
	}
	if a.Fault != "" {
		return a, errors.New(a.Fault)
	}
	return a, nil
}

func (m *maven) run(ctx context.Context, rs []*request, tell func(*request, outcome)) error {
	for _, r := range rs {
		if m.s == nil {
			if err := m.start(ctx); err != nil {
				return err
			}
		}
		a, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		if a.Cold != "" {
			if err := m.cold(ctx, r, tell); err != nil {
				return err
			}
			continue
		}
		if a.Dirty {
			_ = m.s.close() // another begins from the healthy state
			m.s = nil
		}
		if a.Chosen != nil {
			r.tests = chosen(r.tests, *a.Chosen)
		}
		tell(r, m.outcome(a))
	}
	return nil
}

// cold has Maven itself decide.
func (m *maven) cold(ctx context.Context, r *request, tell func(*request, outcome)) (err error) {
	if m.other == nil {
		if m.other, err = newCold(ctx, m.d, m.c); err != nil {
			return err
		}
	}
	return m.other.run(ctx, []*request{r}, tell)
}

// outcome reads an answer, which stands for a process that holds the candidate's
// code.
func (m *maven) outcome(a mavenAnswer) outcome {
	o := outcome{status: map[string]report.Status{}, running: a.Running, timedOut: a.Timed, took: time.Duration(a.Millis * float64(time.Millisecond))}
	for _, x := range a.Results {
		if was, ok := o.status[x[0]]; ok && was != report.Passed {
			continue // of two results the worse
		}
		o.status[x[0]] = report.Status(x[1])
		if report.Status(x[1]) != report.Passed && o.output == "" {
			o.output = x[2]
		}
	}
	if a.Broken != "" {
		o.broken = "the build failed: " + a.Broken
	} else if a.Crashed != "" {
		o.crashed = a.Crashed
	} else if !a.Timed && !a.Ended {
		o.crashed = "the JVM of the tests ended with " + clip(a.Signal, 100)
	}
	return o
}

func (m *maven) close() error {
	var errs []error
	if m.other != nil {
		errs = append(errs, m.other.close())
	}
	if m.s != nil {
		errs = append(errs, m.s.close())
		m.s = nil
	}
	return errors.Join(errs...)
}

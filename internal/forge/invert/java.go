package invert

import (
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
)

// java are faults of the virtual machine's options, of class paths, of Maven's
// files and of its store.
func java() []Operator {
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: "java-" + name, Number: number, Ecosystem: Java, Family: f, Realism: realism, Hint: hint}
	}
	machine := "the options that the virtual machine starts with"
	tool := func(name, value string) Payload {
		return Payload{Name: name, File: "java", Why: "JVM", Lines: []string{export("JAVA_TOOL_OPTIONS", value)}, Tool: "java"}
	}
	classpath := op(46, "classpath", Config, 4, "where classes are looked for")
	classpath.Masked = "a command that names its class path does not read CLASSPATH"
	home := op(50, "home", Config, 5, "which JDK is used")
	home.Masked = "programs that are found by PATH do not ask for JAVA_HOME"
	return slices.Concat([]Operator{
		javaCarried(classpath, func(g *Ground) []Payload {
			return []Payload{{Name: "legacy", File: "java", Lines: []string{export("CLASSPATH", "/opt/legacy/classes")}, Tool: "java"}}
		}),
		javaCarried(op(47, "time-and-text", Config, 3, machine), func(*Ground) []Payload {
			return []Payload{tool("zone", "-Duser.timezone=Pacific/Chatham"), tool("encoding", "-Dfile.encoding=US-ASCII -Dstdout.encoding=US-ASCII"),
				tool("turkish", "-Duser.language=tr -Duser.country=TR"), tool("arabic digits", "-Duser.language=ar -Duser.country=EG")}
		}),
		javaCarried(op(48, "heap", Config, 4, machine), func(*Ground) []Payload {
			return []Payload{tool("4m", "-Xmx4m"), tool("stack", "-Xss136k -Xmx6m"), tool("metaspace", "-XX:MaxMetaspaceSize=4m")}
		}),
		javaCarried(op(0, "flag-removed", Config, 5, machine), func(*Ground) []Payload {
			return []Payload{tool("cms", "-XX:+UseConcMarkSweepGC"), tool("aggressive", "-XX:+UseParNewGC -XX:+AggressiveOpts"),
				{Name: "launcher", File: "java", Lines: []string{export("JDK_JAVA_OPTIONS", "--illegal-access=permit -XX:+UseConcMarkSweepGC")}, Tool: "java"}}
		}),
		javaCarried(op(0, "agent-missing", Config, 4, machine), func(*Ground) []Payload {
			return []Payload{tool("jacoco", "-javaagent:/opt/jacoco/lib/jacocoagent.jar=destfile=/tmp/jacoco.exec"), tool("native", "-agentpath:/opt/profiler/lib/libprofiler.so")}
		}),
		javaCarried(home, func(*Ground) []Payload {
			return []Payload{{Name: "jdk 8", File: "java", Lines: []string{export("JAVA_HOME", "/usr/lib/jvm/java-8-openjdk-amd64")}, Tool: "mvn"},
				{Name: "path", File: "java", Lines: []string{export("JAVA_HOME", "/opt/jdk-11.0.2"), `export PATH="$JAVA_HOME/bin:$PATH"`}, Tool: "mvn"}}
		}),
		chosen(op(49, "jar-newer", Dependency, 4, "what lies on the class path, and in which order"), jarNewer),
		chosen(op(51, "artefact-partial", Dependency, 4, "the jars that were downloaded"), jarPartial),
		chosen(op(0, "source-case", FileState, 4, "which files the classes are in"), javaCase),
		rewritten(op(0, "service-entry", Config, 4, "how implementations of a service are found"), javaServices, javaServiceEntry),
	}, maven())
}

func javaCarried(o Operator, payloads func(g *Ground) []Payload) Operator {
	return chosen(o, func(g *Ground) []choice {
		if !g.Speaks("java") && len(g.Everything(".java")) == 0 {
			return nil
		}
		var all []choice
		for _, p := range payloads(g) {
			all = append(all, g.carried(p)...)
		}
		return all
	})
}

// jars are those that lie beside each other in the project or in Maven's store.
func jars(g *Ground) []string {
	var all []string
	keep := func(dir string) {
		_ = g.Tree.Walk(dir, each(func(p string, size int64) {
			if strings.HasSuffix(p, ".jar") && len(all) < 400 {
				all = append(all, p)
			}
		}))
	}
	keep(g.Dir())
	return all
}

// jarNewer puts a library in its own place that a later Java compiled, as after
// an upgrade; the one before lies in a directory that is on no class path.
func jarNewer(g *Ground) []choice {
	var all []choice
	for _, p := range jars(g) {
		keep := path.Join(path.Dir(p), "previous", path.Base(p))
		if g.Has(keep) || !g.Ours(keep) || strings.Contains(p, "/target/") || strings.Contains(p, "/.mvn/") {
			continue
		}
		if e, _ := g.Entry(p); e.Size > 512<<10 {
			continue
		}
		all = append(all, choice{Site{Path: p, What: "newer"}, func(*rand.Rand) (forge.Delta, error) {
			d, err := g.Copy(p, keep)
			if err != nil {
				return nil, err
			}
			b, _ := g.Bytes(p)
			b, err = newerClasses(b)
			return append(d, g.Write(p, b)...), err
		}})
	}
	return all
}

// jarPartial gives a jar the name of a download that did not end.
func jarPartial(g *Ground) []choice {
	var all []choice
	text := mavenPom(g)
	_ = g.Tree.Walk(mavenStore(g), each(func(p string, _ int64) {
		dir := path.Dir(path.Dir(p))
		if strings.HasSuffix(p, ".jar") && strings.Contains(text, "<artifactId>"+path.Base(dir)+"</artifactId>") {
			all = append(all, g.moved(p, p+".part")...)
		}
	}))
	for _, p := range jars(g) {
		if !strings.Contains(p, "/target/") && !strings.Contains(p, "/build/") && !strings.Contains(p, "/.mvn/") {
			all = append(all, g.moved(p, p+".part")...)
		}
	}
	return all
}

func javaCase(g *Ground) []choice {
	var all []choice
	for _, p := range g.Sources(".java") {
		n := path.Base(p)
		if n == "package-info.java" || n == "module-info.java" || strings.Contains(p, "/test/") {
			continue
		}
		all = append(all, g.rebuilt(g.moved(p, path.Join(path.Dir(p), strings.ToLower(n[:1])+n[1:])))...)
	}
	return all
}

func javaServices(g *Ground) []string {
	return slices.DeleteFunc(g.Project(), func(p string) bool { return !strings.Contains(p, "/META-INF/services/") })
}

func javaServiceEntry(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?m)^([\w.]+)\.(\w+)\s*$`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[2], text: strings.Replace(text, m[1]+"."+m[2], m[1]+".impl."+m[2], 1), rebuilt: true})
	}
	return all
}

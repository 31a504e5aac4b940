package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maven are faults of Maven's project and settings files.
func maven() []Operator {
	because := func(why string, o Operator) Operator { o.Masked = why; return o }
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: "maven-" + name, Number: number, Ecosystem: Java, Family: f, Realism: realism, Hint: hint}
	}
	project, settings := "what the project's file says", "the settings that Maven starts with"
	return []Operator{
		recompiled(rewritten(op(50, "release-new", Config, 5, project), poms, pomRelease)),
		rewritten(op(0, "dependency-drift", Dependency, 5, project), poms, pomDrift),
		rewritten(op(0, "dependency-missing", Dependency, 5, project), poms, pomMissing),
		because("only a project of several modules lists them", rewritten(op(0, "module-missing", Config, 4, project), poms, pomModule)),
		rewritten(op(0, "parent-missing", Dependency, 4, project), poms, pomParent),
		rewritten(op(0, "plugin-drift", Dependency, 4, project), poms, pomPlugin),
		rewritten(op(0, "tests-excluded", Config, 4, project), poms, pomSkip),
		because("only a suite that runs the wrapper reads them",
			rewritten(op(52, "wrapper-version", Config, 5, "which version of the build tool is used"), wrapperProperties, wrapperVersion)),
		mavenFile(op(0, "settings", Config, 5, settings), mavenSettings),
		mavenFile(op(0, "options", Config, 5, settings), mavenOptions),
		mavenFile(op(48, "machine", Config, 4, "the options that Maven's virtual machine starts with"), mavenMachine),
	}
}

// recompiled has a source of the project built again with what an operator
// changes: Maven's compiler does not look at its own settings.
func recompiled(o Operator) Operator {
	apply := o.Apply
	o.Apply = func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
		f, err := apply(g, s, rng)
		for _, p := range g.Sources(".java") {
			if err == nil && strings.HasPrefix(p, path.Dir(s.Path)+"/") && strings.Contains(p, "/src/main/") && path.Base(p) != "package-info.java" {
				f.Delta = append(f.Delta, g.Touch(p, g.later())...)
				break
			}
		}
		return f, err
	}
	return o
}

func mavenPom(g *Ground) string {
	text, _ := g.Text(g.near("pom.xml"))
	return text
}

// mavenStore is the local repository.
func mavenStore(g *Ground) string { return path.Join(g.Home(), ".m2/repository") }

func poms(g *Ground) []string {
	return slices.DeleteFunc(g.Sources("/pom.xml"), func(p string) bool { return strings.Contains(p, "/src/") })
}

func pomRelease(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`<(maven\.compiler\.(?:release|source|target)|release|source|target|java\.version)>\s*(1\.)?\d+\s*</`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], "<"+m[1]+">29</", 1), rebuilt: true})
	}
	if len(all) == 0 && strings.Contains(text, "<properties>") {
		all = append(all, rewrite{what: "maven.compiler.release", rebuilt: true,
			text: strings.Replace(text, "<properties>", "<properties>\n    <maven.compiler.release>29</maven.compiler.release>", 1)})
	}
	return all
}

// pomNeeds finds the dependencies of a project's file.
func pomNeeds(text string) [][]string {
	return regexp.MustCompile(`(?s)[ \t]*<dependency>\s*<groupId>([^<]+)</groupId>\s*<artifactId>([^<]+)</artifactId>.*?</dependency>[ \t]*\n?`).FindAllStringSubmatch(text, -1)
}

func pomDrift(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range pomNeeds(text) {
		v := regexp.MustCompile(`<version>(\d[^<]*)</version>`).FindStringSubmatch(m[0])
		if v != nil {
			all = append(all, rewrite{what: m[2], text: strings.Replace(text, m[0], strings.Replace(m[0], v[0], "<version>"+bump(v[1])+"</version>", 1), 1)})
		}
	}
	for _, m := range regexp.MustCompile(`<([\w.-]+\.version|version\.[\w.-]+)>(\d[^<]*)</`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], "<"+m[1]+">"+bump(m[2])+"</", 1)})
	}
	return all
}

func pomMissing(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range pomNeeds(text) {
		all = append(all, rewrite{what: m[2], text: strings.Replace(text, m[0], "", 1), rebuilt: true})
	}
	return all
}

func pomModule(_ *Ground, _, text string) []rewrite {
	if !strings.Contains(text, "<modules>") {
		return nil
	}
	return []rewrite{{what: "tools", text: strings.Replace(text, "<modules>", "<modules>\n    <module>tools</module>", 1)}}
}

func pomParent(_ *Ground, _, text string) []rewrite {
	if m := regexp.MustCompile(`(?s)<parent>.*?<version>([^<]+)</version>`).FindStringSubmatch(text); m != nil {
		return []rewrite{{what: "version", text: strings.Replace(text, m[0], strings.Replace(m[0], ">"+m[1]+"<", ">"+bump(m[1])+"<", 1), 1)}}
	}
	if m := regexp.MustCompile(`</modelVersion>`).FindString(text); m != "" {
		return []rewrite{{what: "added", text: strings.Replace(text, m, m+"\n  <parent>\n    <groupId>com.example.build</groupId>\n    <artifactId>parent</artifactId>\n    <version>7</version>\n  </parent>", 1)}}
	}
	return nil
}

func pomPlugin(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?s)<artifactId>(maven-(?:surefire|compiler|resources)-plugin)</artifactId>\s*<version>([^<$]+)</version>`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], strings.Replace(m[0], ">"+m[2]+"<", ">"+bump(m[2])+"<", 1), 1)})
	}
	return all
}

func pomSkip(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, key := range []string{"skipTests", "maven.test.skip"} {
		if strings.Contains(text, "<properties>") && !strings.Contains(text, "<"+key+">") {
			all = append(all, rewrite{what: key, text: strings.Replace(text, "<properties>", fmt.Sprintf("<properties>\n    <%[1]s>true</%[1]s>", key), 1)})
		}
	}
	return all
}

// wrapperProperties are those of wrappers that the suite runs.
func wrapperProperties(g *Ground) []string {
	var all []string
	if g.Runs("mvnw") {
		all = append(all, g.near(".mvn/wrapper/maven-wrapper.properties"))
	}
	if g.Runs("gradlew") {
		all = append(all, g.near("gradle/wrapper/gradle-wrapper.properties"))
	}
	return slices.DeleteFunc(all, func(p string) bool { return p == "" })
}

func wrapperVersion(_ *Ground, _, text string) []rewrite {
	m := regexp.MustCompile(`(?m)^distributionUrl=.*?(\d+\.\d+(?:\.\d+)?)`).FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return []rewrite{{what: "distributionUrl", text: strings.ReplaceAll(text, m[1], bump(m[1]))}}
}

// mavenText is a file as it comes to be.
type mavenText struct{ at, what, text string }

// mavenFile makes an operator of files that Maven reads when it starts. One
// that is there gets the lines appended if it is a list of options, and is left
// alone otherwise.
func mavenFile(o Operator, list func(g *Ground) []mavenText) Operator {
	return chosen(o, func(g *Ground) []choice {
		if g.near("pom.xml") == "" {
			return nil
		}
		var all []choice
		for _, f := range list(g) {
			was, ok := g.Text(f.at)
			switch {
			case !ok:
				all = append(all, g.added(f.at, f.what, f.text)...)
			case !strings.HasSuffix(f.at, ".xml") && g.Ours(f.at):
				all = append(all, choice{Site{Path: f.at, What: f.what}, g.rewrite(f.at, rewrite{text: strings.TrimRight(was, "\n") + "\n" + f.text})})
			}
		}
		return all
	})
}

func mavenSettings(g *Ground) []mavenText {
	file := func(what, body string) mavenText {
		return mavenText{path.Join(g.Home(), ".m2/settings.xml"), what, "<settings>\n" + body + "</settings>\n"}
	}
	return []mavenText{
		file("repository moved", "  <localRepository>/mnt/cache/m2</localRepository>\n"),
		file("mirror", "  <mirrors>\n    <mirror>\n      <id>company</id>\n      <mirrorOf>*</mirrorOf>\n      <url>http://127.0.0.1:8081/repository/maven</url>\n    </mirror>\n  </mirrors>\n"),
		file("malformed", "  <proxies>\n    <proxy>\n      <active>true</active>\n  </proxies>\n"),
	}
}

func mavenOptions(g *Ground) []mavenText {
	at := path.Join(path.Dir(g.near("pom.xml")), ".mvn/maven.config")
	return []mavenText{
		{at, "skip", "-DskipTests\n"},
		{at, "settings", "--settings\n/ci/settings.xml\n"},
		{at, "projects", "-pl\n:core\n"},
		{at, "option", "--fail-on-severity=WARN\n"},
		{path.Join(g.Home(), ".mavenrc"), "skip", "MAVEN_ARGS=\"-DskipTests\"\nMAVEN_OPTS=\"$MAVEN_OPTS -DskipTests\"\n"},
	}
}

func mavenMachine(g *Ground) []mavenText {
	at := path.Join(path.Dir(g.near("pom.xml")), ".mvn/jvm.config")
	rc := path.Join(g.Home(), ".mavenrc")
	return []mavenText{
		{at, "heap", "-Xmx8m\n"},
		{at, "removed flag", "-XX:+UseConcMarkSweepGC\n"},
		{rc, "removed flag", "MAVEN_OPTS=\"-Xmx1g -XX:+UseConcMarkSweepGC\"\n"},
		{rc, "jdk", "JAVA_HOME=/usr/lib/jvm/java-8-openjdk-amd64\n"},
	}
}

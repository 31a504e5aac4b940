package report

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var (
	goTextLine  = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (.+) \((.+)\)$`)
	goTextEnd   = regexp.MustCompile(`(?m)^(ok|FAIL|\?)\s+\S+\s+(?:[0-9.]+s\b|\(cached\)|\[[a-z ]+\])`)
	cargoText   = regexp.MustCompile(`^test\s+(\S+)\s+\.\.\.\s+(\w+)$`)
	cargoSums   = regexp.MustCompile(`(?m)^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed;`)
	jestText    = regexp.MustCompile(`^\s*(✓|✕|○)\s(.+?)(?:\s\((\d+\s*m?s)\))?$`)
	jestTextSum = regexp.MustCompile(`(?m)^Tests:\s+(?:(\d+) failed, )?`)
	jestJSONRow = regexp.MustCompile(`^\[(PASSED|FAILED)\]\s(.+)$`)
	vitestText  = regexp.MustCompile(`^\s*(✓|×|↓)\s(.+?)(?:\s(\d+\s*m?s?|\[skipped\]))?$`)
	tapText     = regexp.MustCompile(`^(ok|not ok) (\d+) (.+)$`)
	tapToDo     = regexp.MustCompile(`(?i)# todo\b`)
	karmaText   = regexp.MustCompile(`^(\s*)?([✔✖])?\s(.*)$`)
	suiteLine   = regexp.MustCompile(`^(PASS|FAIL)\s(.*)`)
	suiteCarbon = regexp.MustCompile(`^(.*)\s\([\d.]+(?:ms|\ss|s)\)`)
	grommetTime = regexp.MustCompile(`\s\([\d.]+\s?(?:ms|s)\)$`)
	mavenTest   = regexp.MustCompile(`^.*-Dtest=(\S+).*$`)
	mavenBuild  = regexp.MustCompile(`^.*BUILD (SUCCESS|FAILURE)$`)
	gradleFull  = regexp.MustCompile(`^([^>].+)\s+(PASSED|FAILED)$`)
	gradleName  = regexp.MustCompile(`^([^>]\S*\s+>\s+\S+)$`)
	phpSuite    = regexp.MustCompile(`^(\w.+) \(.+\)$`)
	phpTest     = regexp.MustCompile(`^\s*([✔✘↩])\s*(.*)$`)
	redisLine   = regexp.MustCompile(`^\[(ok|err|skip|ignore)\]:\s(.+?)(?:\s\((\d+\s*m?s)\))?$`)
	redisWhere  = regexp.MustCompile(`\s+in\s+\S+$`)
)

func parseGoText(log string, set func(id, word string)) {
	words := map[string]string{"PASS": "PASSED", "FAIL": "FAILED", "SKIP": "SKIPPED"}
	for l := range strings.SplitSeq(log, "\n") {
		if m := goTextLine.FindStringSubmatch(pyStrip(l)); m != nil {
			set(m[2], words[m[1]])
		}
	}
}

// endGoText: go test ends each package with a line of its own.
func endGoText(log string) parityEnd {
	end := parityEnd{required: true, passed: -1}
	for _, m := range goTextEnd.FindAllStringSubmatch(log, -1) {
		end.found = true
		if m[1] == "FAIL" {
			end.bad++
		}
	}
	return end
}

func parseCargoText(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		m := cargoText.FindStringSubmatch(pyStrip(l))
		switch {
		case m == nil:
		case m[2] == "ok":
			set(m[1], "PASSED")
		case m[2] == "FAILED":
			set(m[1], "FAILED")
		}
	}
}

func endCargoText(log string) parityEnd {
	end := parityEnd{required: true}
	for _, m := range cargoSums.FindAllStringSubmatch(log, -1) {
		end.found = true
		passed, _ := strconv.Atoi(m[1])
		failed, _ := strconv.Atoi(m[2])
		end.passed += passed
		end.bad += failed
	}
	return end
}

func parseSigns(re *regexp.Regexp, words map[string]string) func(string, func(id, word string)) {
	return func(log string, set func(id, word string)) {
		for l := range strings.SplitSeq(log, "\n") {
			if m := re.FindStringSubmatch(pyStrip(l)); m != nil {
				set(pyStrip(m[2]), words[m[1]])
			}
		}
	}
}

func parseJestText(log string, set func(id, word string)) {
	parseSigns(jestText, map[string]string{"✓": "PASSED", "✕": "FAILED", "○": "SKIPPED"})(log, set)
}

func endJestText(log string) parityEnd {
	end := parityEnd{required: true, passed: -1, bad: -1}
	end.found = jestTextSum.MatchString(log)
	return end
}

func parseJestJSON(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		if m := jestJSONRow.FindStringSubmatch(pyStrip(l)); m != nil {
			set(m[2], m[1])
		}
	}
}

func parseVitestText(log string, set func(id, word string)) {
	words := map[string]string{"✓": "PASSED", "×": "FAILED", "↓": "SKIPPED"}
	for l := range strings.SplitSeq(log, "\n") {
		if m := vitestText.FindStringSubmatch(pyStrip(l)); m != nil {
			set(m[2], words[m[1]])
		}
	}
}

func parseTAPText(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		if m := tapText.FindStringSubmatch(pyStrip(l)); m != nil {
			set(m[3], map[string]string{"ok": "PASSED", "not ok": "FAILED"}[m[1]])
		}
	}
}

// endTAPText counts what a TAP runner fails by: one that is still to do is none.
func endTAPText(log string) parityEnd {
	end := parityEnd{found: true, passed: -1}
	for l := range strings.SplitSeq(log, "\n") {
		if l = pyStrip(l); strings.HasPrefix(l, "not ok ") && !tapToDo.MatchString(l) {
			end.bad++
		}
	}
	return end
}

// parseKarma follows the indents of karma-spec-reporter up to its summary.
func parseKarma(log string, set func(id, word string)) {
	indent, suites, started := -1, []string{}, false
	for l := range strings.SplitSeq(log, "\n") {
		if strings.HasPrefix(l, "SUMMARY:") {
			return
		}
		if strings.Contains(l, "Starting browser") {
			started = true
			continue
		}
		m := karmaText.FindStringSubmatch(l)
		if !started || m == nil {
			continue
		}
		if n := len([]rune(m[1])); n > 0 && m[2] == "" {
			if n > indent && len(suites) < 100 {
				indent = n
				suites = append(suites, m[3])
			} else if n < indent {
				indent = n
				if len(suites) > 0 {
					suites = suites[:len(suites)-1]
				}
				continue
			}
		}
		if m[2] != "" {
			word := "FAILED"
			if m[2] == "✔" {
				word = "PASSED"
			}
			set(strings.Join(append(suites[:len(suites):len(suites)], m[3]), " > "), word)
		}
	}
}

// parseSuites reads Jest's lines of files; took cuts a duration off.
func parseSuites(took *regexp.Regexp) func(string, func(id, word string)) {
	return func(log string, set func(id, word string)) {
		for l := range strings.SplitSeq(log, "\n") {
			m := suiteLine.FindStringSubmatch(l)
			if m == nil {
				continue
			}
			if t := took.FindStringSubmatch(m[2]); t != nil {
				m[2] = t[1]
			}
			set(m[2], m[1]+"ED")
		}
	}
}

func parseGrommet(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		if m := suiteLine.FindStringSubmatch(l); m != nil {
			set(grommetTime.ReplaceAllString(pyStrip(m[2]), ""), m[1]+"ED")
		}
	}
}

// parseMaven pairs the command lines of a shell's trace with Maven's results,
// the first with the first.
func parseMaven(log string, set func(id, word string)) {
	var tests, results []string
	pair := func(result string) {
		set(tests[0], map[string]string{"SUCCESS": "PASSED", "FAILURE": "FAILED"}[result])
		tests = tests[1:]
	}
	for l := range strings.SplitSeq(log, "\n") {
		l = pyStrip(l)
		if m := mavenTest.FindStringSubmatch(l); m != nil {
			tests = append(tests, m[1])
		}
		if m := mavenBuild.FindStringSubmatch(l); m != nil {
			if len(tests) > 0 {
				pair(m[1])
			} else {
				results = append(results, m[1])
			}
		}
	}
	for len(tests) > 0 && len(results) > 0 {
		pair(results[0])
		results = results[1:]
	}
}

func parseGradle(log string, set func(id, word string)) {
	pending := ""
	for l := range strings.SplitSeq(log, "\n") {
		l = pyStrip(l)
		if m := gradleFull.FindStringSubmatch(l); m != nil {
			set(m[1], m[2])
			pending = ""
		} else if gradleName.MatchString(l) {
			pending = l
		} else if pending != "" && (l == "PASSED" || l == "FAILED") {
			set(pending, l)
			pending = ""
		}
	}
}

func parsePHPUnit(log string, set func(id, word string)) {
	suite := "None"
	for l := range strings.SplitSeq(log, "\n") {
		if m := phpSuite.FindStringSubmatch(l); m != nil {
			suite = m[1]
		} else if m := phpTest.FindStringSubmatch(l); m != nil {
			set(suite+" > "+m[2], map[string]string{"✔": "PASSED", "✘": "FAILED", "↩": "SKIPPED"}[m[1]])
		}
	}
}

func parseRedis(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		m := redisLine.FindStringSubmatch(pyStrip(l))
		switch {
		case m == nil:
		case m[1] == "ok":
			set(m[2], "PASSED")
		case m[1] == "err":
			set(redisWhere.ReplaceAllString(m[2], ""), "FAILED")
		default:
			set(m[2], "SKIPPED")
		}
	}
}

// parseDoctest reads the XML of doctest (C++) that stands in the log: each
// subcase of each test case passes if all its expressions do.
func parseDoctest(log string, set func(id, word string)) error {
	from := strings.Index(log, "<doctest")
	if from < 0 {
		return nil
	}
	to := strings.Index(log[from:], "</doctest>")
	if to < 0 {
		return errors.New("the XML of doctest breaks off")
	}
	type open struct {
		name string
		bad  bool
	}
	d := xml.NewDecoder(strings.NewReader(log[from : from+to+len("</doctest>")]))
	var testcase string
	var subcases []*open
	for depth := 0; ; {
		tok, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if depth++; depth > maxXMLDepth {
				return errors.New("elements in elements without an end")
			}
			switch t.Name.Local {
			case "TestCase":
				testcase = xmlAttr(t, "name")
			case "SubCase":
				subcases = append(subcases, &open{name: xmlAttr(t, "name")})
			case "Expression":
				for _, s := range subcases {
					s.bad = s.bad || xmlAttr(t, "success") != "true"
				}
			}
		case xml.EndElement:
			depth--
			if t.Name.Local == "SubCase" && len(subcases) > 0 {
				s := subcases[len(subcases)-1]
				subcases = subcases[:len(subcases)-1]
				word := "PASSED"
				if s.bad {
					word = "FAILED"
				}
				set(testcase+" > "+s.name, word)
			}
		}
	}
}

func xmlAttr(t xml.StartElement, key string) string {
	for _, a := range t.Attr {
		if a.Name.Local == key {
			return a.Value
		}
	}
	return ""
}

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// edit is one way to change a real report into one that its runner never wrote.
type edit struct {
	name   string
	format Format
	file   string // below testdata
	exit   int    // of the command, whatever the report says
	old    string // the first that is found is changed; empty: appended
	new    string
	id     string // must not be reported as passed, unless the report is void
}

// forgedCompiled: a report that was changed by hand is void or has no pass for
// the test that did not pass.
func forgedCompiled() []edit {
	const goAll, cargoAll, nxAll, ctAll = "go-test/go1.26.8/all.json", "cargo/1.95.0/all.txt", "nextest/0.9.148/all.xml", "ctest/3.25.1/all.xml"
	const mvn = "junit/surefire-3.2.5/integration/TEST-com.example.ShopIT.xml"
	const wrong = "example.com/shop/cart::TestWrong"
	event := func(action, test string) string {
		return `{"Time":"2026-11-21T22:15:57Z","Action":"` + action + `","Package":"example.com/shop/cart","Test":"` + test + `","Elapsed":0}` + "\n"
	}
	return []edit{
		{"go: a pass behind the end", GoTest, goAll, 1, "", event("pass", "TestWrong"), wrong},
		{"go: a whole test behind the end", GoTest, goAll, 1, "", event("run", "TestWrong") + event("pass", "TestWrong"), wrong},
		{"go: the failure becomes a pass", GoTest, goAll, 1, `"Action":"fail","Package":"example.com/shop/cart","Test":"TestWrong"`,
			`"Action":"pass","Package":"example.com/shop/cart","Test":"TestWrong"`, wrong},
		{"go: the failure becomes a word that only begins like one", GoTest, goAll, 1, `"Action":"fail","Package":"example.com/shop/cart","Test":"TestWrong"`,
			`"Action":"passed","Package":"example.com/shop/cart","Test":"TestWrong"`, wrong},
		{"go: a pass before the failure", GoTest, goAll, 1, `{"Time":"`, event("run", "TestWrong") + event("pass", "TestWrong") + `{"Time":"`, wrong},
		{"go: the status is 0", GoTest, goAll, 0, "", "", wrong},
		{"go: a line that is no event", GoTest, goAll, 1, "", "PASS\n", ""},
		{"go: breaks off", GoTest, goAll, 1, "", `{"Action":"pa`, ""},
		{"go: green, and status 1", GoTest, "go-test/go1.26.8/green.json", 1, "", "", ""},
		{"go: out of the cache", GoTest, "go-test/go1.26.8/cached.json", 0, "", "", ""},
		{"go: leaves in the midst of a test", GoTest, "go-test/go1.26.8/quits.json", 0, "", "", "example.com/shop/quits::TestQuits"},
		{"go: prints the mark of go test", GoTest, "go-test/go1.26.8/forged.json", 1, "", "", "example.com/shop/forged::TestLies"},

		{"cargo: FAILED becomes ok", CargoTest, cargoAll, 101, "test tests::fails ... FAILED", "test tests::fails ... ok", "src/lib.rs[alpha] tests::fails"},
		{"cargo: and so does the sum", CargoTest, cargoAll, 101, "test result: FAILED. 3 passed; 3 failed", "test result: ok. 6 passed; 0 failed", "src/lib.rs[alpha] tests::fails"},
		{"cargo: a result more", CargoTest, cargoAll, 101, "test tests::adds ... ok\n", "test tests::adds ... ok\ntest tests::ghost ... ok\n", "src/lib.rs[alpha] tests::ghost"},
		{"cargo: a block without a program", CargoTest, "cargo/1.95.0/green.txt", 0, "     Running unittests src/lib.rs", "     Ran unittests src/lib.rs", ""},
		{"cargo: a program twice", CargoTest, "cargo/1.95.0/green.txt", 0, "\nrunning 1 test\n",
			"\nrunning 1 test\ntest tests::x ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\nrunning 1 test\n", ""},
		{"cargo: the status is 0", CargoTest, cargoAll, 0, "", "", ""},
		{"cargo: leaves with 0", CargoTest, "cargo/1.95.0/quits.txt", 0, "", "", "tests/quits.rs[quits] quits"},
		{"cargo: a program is announced and says nothing", CargoTest, "cargo/1.95.0/green.txt", 0, "\nrunning 1 test\ntest adds", "\ntest adds", "tests/it.rs[it] adds"},

		{"nextest: the failure is taken out", Nextest, nxAll, 100, "<failure ", "<fine ", "alpha tests::fails"},
		{"nextest: leaves with 0", Nextest, "nextest/0.9.148/quits.xml", 0, "", "", "beta::quits quits"},
		{"nextest: the status is 0", Nextest, nxAll, 0, "", "", ""},
		{"nextest: breaks off", Nextest, nxAll, 100, "</testsuites>", "", ""},

		{"junit: the failure is taken out", Junit, mvn, 1, "<failure ", "<system-err ", "com.example.ShopIT::closes"},
		{"junit: another suite behind the end", Junit, mvn, 1, "", `<testsuite name="x"><testcase name="closes" classname="com.example.ShopIT"/></testsuite>`, "com.example.ShopIT::closes"},
		{"junit: a testcase more", Junit, mvn, 1, "</testsuite>", `<testcase name="ghost" classname="com.example.ShopIT"/></testsuite>`, "com.example.ShopIT::ghost"},
		{"junit: a testcase twice, and the sum with it", Junit, mvn, 1, "</testsuite>", `<testcase name="closes" classname="com.example.ShopIT"/></testsuite>`, "com.example.ShopIT::closes"},
		{"junit: a document type", Junit, mvn, 1, "<testsuite ", `<!DOCTYPE x [<!ENTITY a "b">]><testsuite `, "com.example.ShopIT::opens"},
		{"junit: an entity", Junit, mvn, 1, `name="opens"`, `name="&a;"`, "com.example.ShopIT::opens"},
		{"junit: an attribute twice", Junit, mvn, 1, `name="closes"`, `name="closes" name="opens"`, "com.example.ShopIT::opens"},
		{"junit: text between", Junit, mvn, 1, "</testsuite>", "PASSED</testsuite>", ""},
		{"junit: another encoding", Junit, mvn, 1, `encoding="UTF-8"`, `encoding="UTF-7"`, "com.example.ShopIT::opens"},
		{"junit: the status is 0", Junit, mvn, 0, "", "", ""},
		{"junit: failures are ignored", Junit, "junit/surefire-3.2.5/ignored/TEST-com.example.OldTest.xml", 0, "", "", ""},

		{"ctest: fail becomes run", CTest, ctAll, 8, `status="fail"`, `status="run"`, "fail"},
		{"ctest: not run becomes run", CTest, ctAll, 8, "name=\"absent\" classname=\"absent\" time=\"0\" status=\"notrun\"", "name=\"absent\" classname=\"absent\" time=\"0\" status=\"run\"", "absent"},
		{"ctest: a word that it does not have", CTest, ctAll, 8, `status="fail"`, `status="runner"`, "fail"},
		{"ctest: the status is 0", CTest, ctAll, 0, "", "", ""},
		{"ctest: a test more", CTest, ctAll, 8, "</testsuite>", `<testcase name="ghost" status="run"/></testsuite>`, "ghost"},
	}
}

func TestForgedCompiled(t *testing.T) {
	for _, e := range forgedCompiled() {
		t.Run(e.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", e.file))
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			switch {
			case e.old == "":
				text += e.new
			case !strings.Contains(text, e.old):
				t.Fatalf("%s has no %q", e.file, e.old)
			default:
				text = strings.Replace(text, e.old, e.new, 1)
			}
			r, err := Read(e.format, []Source{{Name: "report", Data: []byte(text)}}, e.exit)
			if err != nil || r.Void() != "" {
				return
			}
			if e.id == "" {
				t.Fatalf("neither void nor refused: %s", told(r, nil))
			}
			for _, test := range r.Tests {
				if test.ID == e.id && test.Status == Passed {
					t.Errorf("%s passed: %s", e.id, told(r, nil))
				}
			}
		})
	}
}

// TestInnocentCompiled: what looks odd and is honest is neither void nor wrong.
func TestInnocentCompiled(t *testing.T) {
	for _, c := range []struct {
		what   string
		format Format
		dir    string
		name   string
		id     string
		want   Status
	}{
		{"a print that looks like a pass of a test that fails", GoTest, "go1.26.8", "all", "example.com/shop/cart::TestWrong", Failed},
		{"a print that looks like a failure of a test that passes", GoTest, "go1.26.8", "all", "example.com/shop/cart::TestSum", Passed},
		{"namesakes in two packages: one fails", GoTest, "go1.26.8", "all", "example.com/shop/cart::TestTable", Failed},
		{"namesakes in two packages: one passes", GoTest, "go1.26.8", "all", "example.com/shop/price::TestTable", Passed},
		{"passed, then torn down badly (Go)", GoTest, "go1.26.8", "all", "example.com/shop/cart::TestCleanupFails", Failed},
		{"spaces and other alphabets", GoTest, "go1.26.8", "all", "example.com/shop/cart::TestTable/Grüße,_世界", Passed},
		{"skipped, with a reason", GoTest, "go1.26.8", "all", "example.com/shop/cart::TestSkipped", Skipped},
		{"a package that does not compile beside ones that do", GoTest, "go1.26.8", "all", "example.com/shop/green::TestSum", Passed},
		{"a panic takes the rest of its package along", GoTest, "go1.26.8", "all", "example.com/shop/crash::TestBefore", Passed},
		{"an old toolchain, where a print hides the failure", GoTest, "go1.19.13", "all", "example.com/shop/cart::TestWrong", Failed},
		{"colours", CargoTest, "1.95.0", "colour", "src/lib.rs[beta] tests::adds", Passed},
		{"a print between a name and its result", CargoTest, "1.95.0", "one-thread", "tests/it.rs[it] writes", Passed},
		{"a failing test that prints results", CargoTest, "1.95.0", "all", "src/lib.rs[alpha] tests::fails", Failed},
		{"a panic that is wanted", CargoTest, "1.95.0", "all", "src/lib.rs[alpha] tests::panics", Passed},
		{"a doc-test with spaces in its name", CargoTest, "1.95.0", "all", "doc[alpha] alpha/src/lib.rs - sum (line 5)", Passed},
		{"a program that was killed beside ones that pass", CargoTest, "1.95.0", "aborts", "tests/it.rs[it] adds", Passed},
		{"failed and, run again, passed", Nextest, "0.9.148", "flaky", "beta::quits flaky", Failed},
		{"other alphabets", Nextest, "0.9.148", "all", "alpha tests::größe", Passed},
		{"a test that prints a report of its own", Junit, "surefire-3.2.5", "all", "com.example.CartTest::fails", Failed},
		{"passed, then torn down badly (JUnit)", Junit, "surefire-3.2.5", "all", "com.example.CartTest::tornDownBadly", Errored},
		{"colours in a message, as references that XML forbids", Junit, "gradle-8.5", "all", "com.example.CartTest::fails()", Failed},
		{"other alphabets", Junit, "gradle-8.5", "all", "com.example.CartTest::Grüße, 世界 with spaces", Passed},
		{"a parametrised test", Junit, "surefire-2.22.2", "all", "com.example.CartTest::named{String}[4]", Passed},
		{"bytes that are no text", CTest, "3.25.1", "all", "prints", Passed},
		{"spaces and signs", CTest, "3.25.1", "all", "with spaces & <tags>", Passed},
		{"a set-up that failed", CTest, "3.25.1", "all", "needs_setup", Errored},
	} {
		found := false
		for _, run := range realRuns(t, c.format) {
			if filepath.Base(run.dir) != c.dir || run.name != c.name {
				continue
			}
			r, err := Read(c.format, run.sources, run.exit)
			if err != nil || r.Void() != "" {
				t.Errorf("%s: %v %v", c.what, err, r)
				continue
			}
			for _, test := range r.Tests {
				if test.ID == c.id {
					if found = true; test.Status != c.want {
						t.Errorf("%s: %s is %s, not %s", c.what, c.id, test.Status, c.want)
					}
				}
			}
		}
		if !found {
			t.Errorf("%s: no %s in %s/%s", c.what, c.id, c.dir, c.name)
		}
	}
}

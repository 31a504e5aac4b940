package scripted

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The examples of the documentation are read as they stand, and every kind of
// fault is in its table.
func TestDocumentation(t *testing.T) {
	b, err := os.ReadFile("../../../docs/scripted-models.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		n++
		if _, err := Parse("docs", []byte(m[1])); err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
	}
	if n < 3 {
		t.Errorf("%d examples found", n)
	}
	_, table, _ := strings.Cut(string(b), "| kind |")
	for _, k := range Kinds() {
		if k != Status && !slices.Contains(regexp.MustCompile("`([a-z0-9-]+)`").FindAllString(table, -1), "`"+string(k)+"`") {
			t.Errorf("kind %s is not documented", k)
		}
	}
}

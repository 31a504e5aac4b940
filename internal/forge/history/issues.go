package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Issue is one entry of an export: an issue, or a pull or merge request.
type Issue struct {
	Key    string // "12", "PROJ-12"
	Title  string
	Body   string
	Labels []string
	Pull   bool
	Images int // that the text shows
}

// Issues are those of a repository, by key. Of a number that both an issue and
// a request have, as on some hosts, the issue counts.
type Issues map[string]Issue

// Caps of an export, which strangers wrote.
const (
	maxExport = 256 << 20 // bytes, a few times of which are in memory
	maxIssues = 1_000_000
	maxText   = 128 << 10 // bytes of one issue
)

// ReadIssues reads an export: JSON of GitHub (its interface's lists, `gh issue
// list --json`), of GitLab (its interface, or a project's export), or of Jira
// (a search's answer); an array, an object that holds one, one after another,
// or one object a line.
func ReadIssues(r io.Reader) (Issues, error) { return readIssues(r, maxExport) }

func readIssues(r io.Reader, most int64) (Issues, error) {
	limited := &io.LimitedReader{R: r, N: most}
	big := fmt.Errorf("read issues: more than %d MB; split the export", most>>20)
	d := json.NewDecoder(bufio.NewReaderSize(limited, 1<<20))
	all := Issues{}
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			if limited.N <= 0 {
				return nil, big
			}
			if len(all) == 0 {
				return nil, errors.New("read issues: no issue is in it; expected JSON of GitHub (number, title, body), GitLab (iid, title, description) or Jira (key, fields)")
			}
			return all, nil
		}
		if err != nil && limited.N <= 0 {
			return nil, big
		}
		if err != nil {
			return nil, fmt.Errorf("read issues: byte %d: %w", d.InputOffset(), err)
		}
		if err := all.take(v, 0); err != nil {
			return nil, fmt.Errorf("read issues: before byte %d: %w", d.InputOffset(), err)
		}
	}
}

// record is an entry in any of the forms. A field of another kind than it is
// known to be is not there.
type record struct {
	Number      json.RawMessage `json:"number"`
	IID         json.RawMessage `json:"iid"`
	Key         string          `json:"key"`
	Title       string          `json:"title"`
	Body        json.RawMessage `json:"body"`
	Description json.RawMessage `json:"description"`
	PullRequest json.RawMessage `json:"pull_request"`
	Labels      json.RawMessage `json:"labels"`
	Source      json.RawMessage `json:"source_branch"` // of GitLab's merge requests
	Fields      *struct {
		Summary     string          `json:"summary"`
		Description json.RawMessage `json:"description"`
		Labels      json.RawMessage `json:"labels"`
		Type        struct {
			Name string `json:"name"`
		} `json:"issuetype"`
	} `json:"fields"`

	Issues json.RawMessage `json:"issues"`
	Items  json.RawMessage `json:"items"`
	Nodes  json.RawMessage `json:"nodes"`
	Data   json.RawMessage `json:"data"`
	Repo   json.RawMessage `json:"repository"`
	Proj   json.RawMessage `json:"project"`
	Edges  json.RawMessage `json:"edges"`
	Node   json.RawMessage `json:"node"`
	Pulls  json.RawMessage `json:"pullRequests"`
	Merges json.RawMessage `json:"merge_requests"`
}

func (all Issues) take(v json.RawMessage, depth int) error {
	v = json.RawMessage(strings.TrimSpace(string(v)))
	if len(v) == 0 || depth > 8 {
		return nil
	}
	if v[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil {
			return err
		}
		for _, x := range list {
			if err := all.take(x, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if v[0] != '{' {
		return nil
	}
	var x record
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(v, &x); err != nil && !errors.As(err, &wrong) {
		return err
	}
	if is, ok := x.issue(); ok {
		if len(all) >= maxIssues {
			return fmt.Errorf("more than %d issues", maxIssues)
		}
		if old, there := all[is.Key]; !there || old.Pull {
			all[is.Key] = is
		}
		return nil
	}
	for _, inner := range []json.RawMessage{x.Issues, x.Items, x.Nodes, x.Data, x.Repo, x.Proj, x.Edges, x.Node, x.Pulls, x.Merges} {
		if err := all.take(inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (x record) issue() (Issue, bool) {
	is := Issue{Title: x.Title, Labels: labels(x.Labels), Pull: len(x.PullRequest) > 0 && string(x.PullRequest) != "null" || len(x.Source) > 0}
	body := x.Body
	switch {
	case x.Fields != nil && x.Key != "":
		is.Key, is.Title, body = x.Key, x.Fields.Summary, x.Fields.Description
		is.Labels = append(labels(x.Fields.Labels), x.Fields.Type.Name)
	case integer(x.IID) > 0:
		is.Key, body = strconv.Itoa(integer(x.IID)), x.Description
	case integer(x.Number) > 0 && x.Title != "":
		is.Key = strconv.Itoa(integer(x.Number))
	default:
		return is, false
	}
	is.Body = clip(plain(body), maxText)
	if x.Fields != nil && len(body) > 0 && body[0] == '"' {
		is.Body = markdown(is.Body)
	}
	is.Title = clip(strings.Join(strings.Fields(is.Title), " "), 500)
	is.Images = images(is.Body)
	return is, true
}

func integer(v json.RawMessage) int {
	n, err := strconv.Atoi(strings.Trim(string(v), `"`))
	if err != nil {
		return 0
	}
	return n
}

// labels are strings, or objects with a name.
func labels(v json.RawMessage) []string {
	var names []string
	if json.Unmarshal(v, &names) == nil {
		return names
	}
	var objects []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(v, &objects) != nil {
		return nil
	}
	names = nil
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return names
}

// plain is a text, or the text of a document tree as Jira's newer interface has
// it: nodes with "text", and blocks that end a line.
func plain(v json.RawMessage) string {
	var s string
	if len(v) == 0 || json.Unmarshal(v, &s) == nil {
		return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	}
	var n node
	if json.Unmarshal(v, &n) != nil {
		return ""
	}
	var b strings.Builder
	n.write(&b, 0)
	return strings.TrimSpace(b.String())
}

type node struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Content []node `json:"content"`
}

func (n node) write(b *strings.Builder, depth int) {
	if depth > 50 || b.Len() > maxText {
		return
	}
	switch n.Type {
	case "hardBreak":
		b.WriteByte('\n')
	case "codeBlock":
		b.WriteString("```\n")
	case "listItem":
		b.WriteString("- ")
	case "media", "mediaSingle":
		b.WriteString("![]()\n")
	}
	b.WriteString(n.Text)
	for _, c := range n.Content {
		c.write(b, depth+1)
	}
	switch n.Type {
	case "paragraph", "heading":
		b.WriteString("\n\n")
	case "codeBlock":
		b.WriteString("\n```\n\n")
	}
}

// clip cuts at a whole character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

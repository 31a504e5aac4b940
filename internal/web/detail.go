package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"assay/internal/store"
)

const (
	maxDiff = 256 << 10 // bytes of a diff on a page
	maxTest = 128 << 10 // bytes of a verifier's output on a page
	maxLog  = 32 << 10  // bytes of any other file on a page
	maxLogs = 16        // other files shown; the rest is named
)

// Detail is everything a trial's own page shows beyond its row.
type Detail struct {
	*Trial
	Parts   []Part // one for each step of a multi-step task, else one
	Files   []File
	More    bool   // Files is not complete
	Problem string // the directory could not be read
	Bare    bool   // texts are left out; see [WithoutCode]
}

// Part is what one step of the task left behind.
type Part struct {
	Name     string // empty in a single-step task
	Steps    Steps
	DiffName string
	Diff     []FileDiff
	DiffText Text // what Diff was parsed from
	Test     Text // the verifier's output
	Details  Text // reward-details.json
	Logs     []Log
	Unshown  int   // logs that exist and are not shown
	Shape    Shape // of a bare report
}

// Log is one text file.
type Log struct {
	Path string
	Text Text
}

// readDetail reads a trial's directory, showing at most room bytes of text.
func readDetail(t *Trial, room int) Detail {
	d := Detail{Trial: t}
	root, err := os.OpenRoot(t.Dir)
	switch {
	case err == nil:
		d.Files, d.More = listFiles(root)
		root.Close()
	case t.Ended():
		d.Problem = "the trial's directory cannot be read: " + line(err.Error(), 300)
	}
	parts := t.Parts
	if len(parts) == 0 {
		parts = []string{""}
	}
	for _, name := range parts {
		d.Parts = append(d.Parts, readPart(t, d.Files, name, room/len(parts)))
	}
	if p := &d.Parts[len(d.Parts)-1]; p.Steps.Total == 0 && p.Steps.Problem == "" {
		p.Steps = liveSteps(t.LiveSteps)
	}
	return d
}

// readPart gives half of the room to the trajectory and the rest to output.
func readPart(t *Trial, files []File, step string, room int) Part {
	p := Part{Name: step}
	base := ""
	if step != "" {
		base = store.StepsDir + "/" + step + "/"
	}
	p.Steps = readTrajectory(t, base+store.TrajectoryFile, room/2)
	b := budget{left: room / 2}
	get := func(name string, limit int) Text {
		text, err := readText(t, name, min(limit, b.left))
		if err != nil {
			if !exists(t, name) {
				return Text{}
			}
			msg := "(cannot be shown: " + line(err.Error(), 300) + ")"
			return Text{Head: msg, Size: int64(len(msg)), Lines: 1}
		}
		b.left = max(0, b.left-len(text.Head)-len(text.Tail))
		return text.withoutKeys()
	}
	p.Test = get(base+store.TestOutputFile, maxTest)
	if p.DiffName = findDiff(files, base); p.DiffName != "" {
		p.DiffText = get(p.DiffName, maxDiff)
		p.Diff = parseDiff(p.DiffText.All())
	}
	p.Details = indented(get(base+store.RewardNotesFile, maxLog))
	for _, f := range files {
		if !isLog(f, base, p.DiffName) {
			continue
		}
		if len(p.Logs) == maxLogs || b.left < 256 {
			p.Unshown++
			continue
		}
		p.Logs = append(p.Logs, Log{Path: f.Path, Text: get(f.Path, maxLog)})
	}
	return p
}

// exists reports whether anything has that name, were it a link or a pipe.
func exists(t *Trial, name string) bool {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(name)
	return err == nil
}

func readTrajectory(t *Trial, name string, room int) Steps {
	f, info, err := openFile(t, name)
	if err != nil {
		if !exists(t, name) {
			return Steps{}
		}
		return Steps{Problem: line(err.Error(), 300)}
	}
	defer f.Close()
	s := readSteps(io.LimitReader(f, maxTrajBytes), room)
	if info.Size() > maxTrajBytes {
		s.Problem = fmt.Sprintf("the file has %s; only its first %s are shown", Bytes(info.Size()), Bytes(maxTrajBytes))
	}
	return s
}

// findDiff is the agent's work as a diff: [store.DiffFile], or, where another
// harness ran, the first *.diff or *.patch in agent/, the step's own folder or
// artifacts/.
func findDiff(files []File, base string) string {
	if slices.ContainsFunc(files, func(f File) bool { return f.Path == base+store.DiffFile }) {
		return base + store.DiffFile
	}
	for _, dir := range []string{"agent/", "", "artifacts/"} {
		for _, f := range files {
			in, name := path.Split(f.Path)
			if in == base+dir && (strings.HasSuffix(name, ".diff") || strings.HasSuffix(name, ".patch")) {
				return f.Path
			}
		}
	}
	return ""
}

// isLog picks the text files worth reading: what lies directly in the step's
// folder, in agent/ and in verifier/, and is not shown elsewhere.
func isLog(f File, base, diff string) bool {
	in, name := path.Split(f.Path)
	if in != base && in != base+"agent/" && in != base+"verifier/" || f.Path == diff || f.Size == 0 {
		return false
	}
	switch name {
	case "config.json", "lock.json", "result.json", "trajectory.json", "test-stdout.txt", "reward-details.json",
		"reward.txt", "reward.json", "stream.json":
		return false
	}
	switch path.Ext(name) {
	case ".txt", ".log", ".json", ".ndjson", ".jsonl", ".xml", ".md", ".out", ".err", "":
		return true
	}
	return false
}

// indented makes JSON readable; anything else stays as it is.
func indented(t Text) Text {
	if t.Left > 0 || t.Empty() {
		return t
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(t.Head), "", "  ") != nil || b.Len() > maxLog {
		return t
	}
	return newText(b.String(), "", 0, t.Size)
}

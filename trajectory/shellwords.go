package trajectory

import (
	"path"
	"slices"
	"strings"
)

// maxCommand bounds how much of one command is looked at.
const maxCommand = 64 << 10

// shellFiles are the files that a command names where a program known to read
// or write them takes one. It is no shell: quotes are honoured, here-documents
// are skipped, nothing is expanded.
func shellFiles(command string) (seen, changed []string) {
	if len(command) > maxCommand {
		command = command[:maxCommand]
	}
	changed = patchFiles(command)
	for _, w := range shellWords(withoutHereDocuments(command)) {
		s, c := simpleFiles(w)
		seen, changed = append(seen, s...), append(changed, c...)
	}
	return seen, changed
}

// withoutHereDocuments drops the lines of here-documents.
func withoutHereDocuments(s string) string {
	var out []string
	end := ""
	for line := range strings.Lines(s) {
		if end != "" {
			if strings.TrimSpace(line) == end {
				end = ""
			}
			continue
		}
		out = append(out, line)
		if _, after, ok := strings.Cut(line, "<<"); ok && !strings.HasPrefix(after, "<") {
			f := strings.Fields(strings.TrimLeft(after, "- "))
			if len(f) > 0 {
				end = strings.Trim(f[0], `'"\`)
			}
		}
	}
	return strings.Join(out, "")
}

// shellWords splits a command line into simple commands of words.
func shellWords(s string) (all [][]string) {
	var now []string
	var word strings.Builder
	quote, begun := rune(0), false
	flush := func() {
		if begun {
			now = append(now, word.String())
			word.Reset()
			begun = false
		}
	}
	end := func() {
		flush()
		if len(now) > 0 {
			all = append(all, now)
			now = nil
		}
	}
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			begun, escaped = true, false
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			flush()
		case strings.ContainsRune("\n;|&()", r):
			if r == '&' && strings.HasSuffix(word.String(), ">") { // 2>&1
				word.WriteRune(r)
				continue
			}
			end()
		case r == '>':
			if begun && !strings.HasSuffix(word.String(), ">") && strings.Trim(word.String(), "012") != "" {
				flush()
			}
			word.WriteRune(r)
			begun = true
		default:
			if begun && strings.HasSuffix(word.String(), ">") {
				flush()
			}
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return all
}

// simpleFiles are the files of one simple command.
func simpleFiles(words []string) (seen, changed []string) {
	var rest []string
	for i := 0; i < len(words); i++ {
		if w := words[i]; strings.HasSuffix(w, ">") && strings.Trim(w, "12>") == "" {
			if i+1 < len(words) && fileLike(words[i+1]) {
				changed = append(changed, path.Clean(words[i+1]))
			}
			i++
			continue
		}
		rest = append(rest, words[i])
	}
	for len(rest) > 0 && (strings.Contains(rest[0], "=") || slices.Contains([]string{"sudo", "time", "env", "nice", "command", "timeout"}, rest[0])) {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return nil, changed
	}
	program := path.Base(rest[0])
	files := plainFiles(rest[1:])
	switch program {
	case "cat", "head", "tail", "less", "more", "nl", "wc", "od", "xxd", "strings", "file", "diff", "bat", "md5sum", "sha256sum", "source", ".":
		seen = files
	case "grep", "egrep", "rg", "awk", "jq": // the first word is what is looked for
		seen = files[min(len(files), 1):]
		if slices.Contains(rest, "-e") || slices.Contains(rest, "-f") {
			seen = files
		}
	case "sed":
		if slices.ContainsFunc(rest, func(w string) bool { return strings.HasPrefix(w, "-i") || strings.HasPrefix(w, "--in-place") }) {
			changed = append(changed, files[min(len(files), 1):]...)
		} else {
			seen = files[min(len(files), 1):]
		}
	case "tee", "touch", "rm", "truncate":
		changed = append(changed, files...)
	case "cp", "mv", "install", "ln":
		if len(files) > 1 {
			seen, changed = files[:len(files)-1], append(changed, files[len(files)-1])
			if program == "mv" {
				changed = append(changed, files[:len(files)-1]...)
			}
		}
	case "python", "python3", "node", "ruby", "perl", "bash", "sh":
		if !slices.Contains(rest, "-c") && !slices.Contains(rest, "-m") && !slices.Contains(rest, "-e") {
			seen = files[:min(len(files), 1)]
		}
	}
	return seen, changed
}

// plainFiles are the words that could be names of files.
func plainFiles(words []string) (files []string) {
	for i, w := range words {
		if strings.HasPrefix(w, "-") && len(w) > 1 || i > 0 && (words[i-1] == "-n" || words[i-1] == "-c") && strings.Trim(w, "0123456789") == "" {
			continue
		}
		if fileLike(w) {
			files = append(files, path.Clean(w))
		} else {
			files = append(files, "") // keeps the place
		}
	}
	return slices.DeleteFunc(files, func(s string) bool { return s == "" && len(files) > 1 && files[0] != "" })
}

func fileLike(w string) bool {
	return w != "" && w != "-" && len(w) <= 4096 && !strings.ContainsAny(w, "$*?`{}<>\n") && !strings.HasPrefix(w, "&") && w != "/dev/null"
}

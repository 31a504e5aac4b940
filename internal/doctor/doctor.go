// Package doctor says what this machine can do: findings with the exact remedy
// for what it cannot. It only holds the vocabulary and the general checks;
// each room that depends on the machine (a sandbox backend) makes its own
// findings. Tests skip on the same findings that the doctor command prints.
// The package never changes the machine.
package doctor

import "fmt"

// Finding is the answer to one question about this machine.
type Finding struct {
	Name   string `json:"name"` // "user namespaces", "fresh proc mount", "store file system"
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // what was seen: version, errno, file
	Means  string `json:"means,omitempty"`  // what follows when not OK
	Remedy string `json:"remedy,omitempty"` // the exact command or setting, when not OK
}

// Refusal is a finding that stops a command.
type Refusal struct{ Finding Finding }

func (r *Refusal) Error() string {
	f := r.Finding
	return fmt.Sprintf("%s: %s\n  %s\n  remedy: %s", f.Name, f.Detail, f.Means, f.Remedy)
}

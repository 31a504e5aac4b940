package cli

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"assay/internal/grade/exploit"
)

// maxAttackStep is how much of a cheat is one step of a script agent, in bytes:
// a step is one argument of the shell. A cheat against a task of a thousand
// tests names each of them several times, and is longer.
const maxAttackStep = 60 << 10

// longAttack is where a long cheat is put together, in the agent's sandbox.
const longAttack = "/tmp/.x-long.sh"

// attackSteps is a cheat as steps of a script agent, for its task alone. One
// that is too long arrives in pieces, and is run by the last step.
func attackSteps(p exploit.Pair) string {
	glob := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(p.Target.Task)
	step := func(does, line string) string { return fmt.Sprintf("# step: %s\n# task: %s\n%s\n", does, glob, line) }
	if len(p.Script) <= maxAttackStep {
		return step(p.Attack.Does, p.Script)
	}
	var b strings.Builder
	b.WriteString(step("makes room", "rm -f "+longAttack))
	for piece := range slices.Chunk([]byte(p.Script), maxAttackStep) {
		b.WriteString(step("brings a piece", fmt.Sprintf("echo %s | base64 -d >>%s", base64.StdEncoding.EncodeToString(piece), longAttack)))
	}
	b.WriteString(step(p.Attack.Does, "/bin/sh "+longAttack+"; s=$?; rm -f "+longAttack+"; exit $s"))
	return b.String()
}

package atif

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/model"
	"assay/trajectory"
)

// Records that an agent made long on purpose cost no more than their size.
func TestLongRecords(t *testing.T) {
	sh := tools("bash")
	for name, make := range map[string]func(a *Assembly){
		"many conversations": func(a *Assembly) {
			for i := range 4_000 {
				k := &talk{}
				a.Add(*k.call(sh, []model.Message{say(model.RoleUser, fmt.Sprint("question ", i, strings.Repeat("x", 2000)))}, answers("An answer that is long enough to be quoted.")))
			}
		},
		"many branches": func(a *Assembly) {
			m := []model.Message{say(model.RoleUser, brief)}
			k := &talk{}
			a.Add(*k.call(sh, m, answers(`call c1 bash {"command":"x"}`)))
			m = append(m, answers(`call c1 bash {"command":"x"}`).Message)
			for i := range 4_000 {
				a.Add(*k.call(sh, append(m[:2:2], result("c1", fmt.Sprint(i))), answers("ok")))
			}
		},
		"many failures": func(a *Assembly) {
			k := &talk{}
			for range 4_000 {
				a.Add(*k.fail(sh, []model.Message{say(model.RoleUser, brief)}, model.Error{Kind: model.ErrServer, Status: 500, Message: strings.Repeat("m", 5000)}))
			}
		},
		"many calls": func(a *Assembly) {
			k := &talk{}
			all := answers()
			for i := range 10_000 {
				all.Message.Parts = append(all.Message.Parts, answers(fmt.Sprintf(`call c%d bash {"command":"x"}`, i)).Message.Parts...)
			}
			a.Add(*k.call(sh, []model.Message{say(model.RoleUser, brief)}, all))
			back := model.Message{Role: model.RoleTool}
			for i := range 10_000 {
				back.Parts = append(back.Parts, result(fmt.Sprint("c", i), "out").Parts...)
			}
			a.Add(*k.call(sh, []model.Message{say(model.RoleUser, brief), all.Message, back}, answers("ok")))
		},
		"a long conversation": func(a *Assembly) {
			k := &talk{}
			m := []model.Message{say(model.RoleUser, brief)}
			for i := range 500 {
				ans := answers(fmt.Sprintf(`call c%d bash {"command":"%d"}`, i, i))
				a.Add(*k.call(sh, m, ans))
				m = append(m, ans.Message, result(fmt.Sprint("c", i), strings.Repeat("o", 500)))
				k.xs = nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(info(), brief, Options{})
			begin := time.Now()
			make(a)
			doc, err := a.Document()
			if err != nil {
				t.Fatal(err)
			}
			b, err := trajectory.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, %d documents, %v", len(b), 1+len(doc.Subagents), time.Since(begin).Round(time.Millisecond))
			if len(b) > trajectory.MaxSize {
				t.Errorf("%d bytes: a reader takes %d", len(b), trajectory.MaxSize)
			}
			if took := time.Since(begin); took > 60*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

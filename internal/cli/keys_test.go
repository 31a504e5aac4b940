package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"assay/internal/store"
	"assay/trial"
)

const realKey = "real-key-of-the-user-7f3a"

// gossip is a provider that takes the real key alone, and repeats all that it
// was told, in answers and in errors.
func gossip(t *testing.T) (url string, seen func() []string) {
	var mu sync.Mutex
	var keys []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		keys = append(keys, r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("X-You-Said", r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+realKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"not %s","type":"invalid_api_key"}}`, r.Header.Get("Authorization"))
			return
		}
		if strings.Contains(string(body), "fail") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"your key %s is fine","type":"invalid_request_error"}}`, realKey)
			return
		}
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",
			"message":{"role":"assistant","content":"done with %s"}}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, realKey)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", func() []string {
		mu.Lock()
		defer mu.Unlock()
		return keys
	}
}

// blab tells everybody everything: its key, what the model says, the
// environment of every process, and what it can do with its key elsewhere.
const blab = `
ask() { # BASE WORD
  hp=${1#http://}; path=/${hp#*/}; hp=${hp%%/*}
  body='{"model":"m","messages":[{"role":"user","content":"'$2'"}]}'
  exec 3<>/dev/tcp/${hp%:*}/${hp#*:}
  printf 'POST %s/v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
    "$path" "$hp" "$ASSAY_MODEL_KEY" ${#body} "$body" >&3
  cat <&3
}
echo "key $ASSAY_MODEL_KEY"; env
for e in /proc/[0-9]*/environ; do tr '\0' '\n' <$e; done 2>/dev/null | tee /logs/agent/environments
ask $ASSAY_MODEL_URL hello-$ASSAY_MODEL_KEY | tee /app/answer
ask $ASSAY_MODEL_URL fail
ask ${ASSAY_MODEL_URL%/*}/0123456789abcdef other >/app/other
echo "$ASSAY_MODEL_KEY" >/app/key
echo "$ASSAY_MODEL_KEY" >/logs/agent/key
(sleep 2; ask $ASSAY_MODEL_URL late >/app/late) &
cat /app/other
`

// No key is where it does not belong: the user's own in no file of a job and in
// no process of a sandbox; the trial's in no file but the graded work.
func TestKeysStayWhereTheyBelong(t *testing.T) {
	needSandbox(t)
	url, seen := gossip(t)
	dir := scratch(t)
	write := func(rel, text string) string {
		p := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	models := write("models.toml", "[models.m]\nurl = \""+url+"\"\ndialects = [\"chat\"]\ncredential = { env = \"REAL_KEY\" }\n")
	write("task/task.toml", "[environment]\ndocker_image = \"host\"\nworkdir = \"/app\"\n")
	write("task/instruction.md", "Talk.")
	write("task/environment/.keep", "")
	write("task/tests/test.sh", "cat /app/key; grep -q done /app/answer && ! grep -q done /app/other && [ ! -e /app/late ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n")
	env := func(k string) (string, bool) {
		if k == "REAL_KEY" {
			return realKey, true
		}
		return os.LookupEnv(k)
	}
	var out, errs bytes.Buffer
	jobs := filepath.Join(dir, "jobs")
	code := Main([]string{"assay", "--store", filepath.Join(dir, "store"), "run", "-q", "-p", filepath.Join(dir, "task"), "-o", jobs, "--job-name", "keys",
		"-m", "m", "--models", models, "-a", "command:exec bash -c '" + strings.ReplaceAll(blab, "'", `'\''`) + "'"},
		World{Stdout: &out, Stderr: &errs, Env: env})
	if code != exitDone {
		t.Fatalf("exit %d\n%s", code, &errs)
	}
	v, err := store.Read(filepath.Join(jobs, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Trials[0].Record; r.Cause != trial.CauseSolved {
		b, _ := os.ReadFile(filepath.Join(v.Trials[0].Dir, "agent", "command.txt"))
		t.Fatalf("%s: %s\n%s", r.Cause, r.Detail, b)
	}
	if got := seen(); len(got) != 2 || got[0] != "Bearer "+realKey || got[1] != got[0] {
		t.Errorf("the provider saw %q", got)
	}
	own := regexp.MustCompile(`assay-[a-z2-7]{32}`)
	where := map[bool]int{}
	err = filepath.WalkDir(jobs, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(realKey)) && d.Name() != "workspace.diff" {
			t.Errorf("the user's key is in %s", p)
		}
		if own.Match(b) {
			work := d.Name() == "workspace.diff"
			if where[work]++; !work {
				t.Errorf("the trial's key is in %s", p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if where[true] != 1 {
		t.Error("the graded work is not as the agent left it")
	}
	log, err := os.ReadFile(filepath.Join(v.Trials[0].Dir, "agent", "environments"))
	if err != nil || !bytes.Contains(log, []byte("ASSAY_MODEL_URL=")) {
		t.Fatalf("the environments of the sandbox are not there to be looked at: %v\n%s", err, log)
	}
}

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shop is a task whose agent must change what a service beside it holds. The
// verifier asks that service, which lives on, and looks at the agent's tree.
var shop = map[string]string{
	"task.toml": `schema_version = "1.4"
artifacts = [{source = "/data/word", service = "web", destination = "word"}]
[environment]
workdir = "/app"
[environment.env]
GREETING = "hello"
[[verifier.collect]]
command = "echo collected >> /data/word"
service = "web"
`,
	"instruction.md": "Set the price.\n",
	"environment/docker-compose.yaml": `services:
  main:
    build: .
    environment: {SHOP: "http://web:80/"}
    depends_on: {web: {condition: service_healthy}}
  web:
    build: {context: web, args: {WORD: start}}
    command: ["${GREETING}"]
    restart: always
    volumes: ["./conf:/conf:ro"]
    healthcheck: {test: "curl -fs http://127.0.0.1/", interval: 1s, retries: 30}
    ports: ["8080:80"]
`,
	"environment/conf/prefix":    "says: ",
	"environment/Dockerfile":     "FROM local/base:1\nWORKDIR /app\n",
	"environment/web/Dockerfile": "FROM local/base:1\nARG WORD\nRUN mkdir /data && echo -n $WORD > /data/word\nCOPY serve.py /\nENTRYPOINT [\"python3\", \"/serve.py\"]\n",
	"environment/web/serve.py": `import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write((open("/conf/prefix").read() + sys.argv[1] + " " + open("/data/word").read()).encode())
    def do_PUT(self):
        open("/data/word", "wb").write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200); self.end_headers()
    def log_message(self, f, *a): print(f % a, flush=True)
http.server.HTTPServer(("", 80), H).serve_forever()
`,
	"solution/solve.sh": "#!/bin/sh\nset -e\n[ \"$(curl -fs $SHOP)\" = 'says: hello start' ]\ncurl -fs -X PUT -d price=5 $SHOP\necho done > /app/done\n(sleep 1000 &)\n",
	"tests/test.sh": "#!/bin/sh\n[ \"$(curl -fs http://web/)\" = \"$(printf 'says: hello price=5collected\\n')\" ] && [ \"$(cat /app/done)\" = done ] && ! pgrep sleep && " +
		"echo 1 > /logs/verifier/reward.txt || { curl -s http://web/; echo 0 > /logs/verifier/reward.txt; }\n",
}

// A task with services beside its agent runs in an engine; its results say that
// the services lived on.
func dockerServices(t *testing.T, dir string) {
	for name, content := range shop {
		p := filepath.Join(dir, "shop", name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"assay", "--store", filepath.Join(dir, "store"), "-e", "docker"}, args...)
		if code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: os.LookupEnv}); code != want {
			t.Fatalf("%q: exit %d\n%s%s", args, code, &out, &errs)
		}
		return out.String() + errs.String()
	}
	run(0, "run", "-q", "-p", filepath.Join(dir, "shop"), "-a", "oracle", "-a", "nop", "-n", "2", "-o", dir, "--job-name", "shop-job", "--no-report")
	outcomes := map[string]string{}
	for line := range strings.Lines(run(0, "job", "show", filepath.Join(dir, "shop-job"), "--trials", "--json")) {
		var trial struct {
			Agent, Dir string
			Record     struct {
				Outcome, Detail string
				Modes           struct{ Services, Verifier string }
			}
		}
		if err := json.Unmarshal([]byte(line), &trial); err != nil {
			t.Fatal(err)
		}
		outcomes[trial.Agent] = trial.Record.Outcome + " " + trial.Record.Modes.Verifier + " " + trial.Record.Modes.Services
	}
	if outcomes["oracle"] != "pass sealed kept" || outcomes["nop"] != "fail sealed kept" {
		t.Errorf("%v", outcomes)
	}
	for pattern, want := range map[string]string{"artifacts/word": "price=5collected", "agent/services/web.log": "PUT"} {
		files, err := filepath.Glob(filepath.Join(dir, "shop-job", "shop__*", pattern))
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			found = found || err == nil && strings.Contains(string(b), want)
		}
		if err != nil || !found {
			t.Errorf("no %s says %q: %v %v", pattern, want, files, err)
		}
	}
}

package task

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// composed makes a task of these files and reads its Compose file.
func composed(t testing.TB, all map[string]string, env ...string) (*Compose, string, error) {
	t.Helper()
	tk := &Task{Dir: files(t, all)}
	c, err := tk.Compose(env)
	return c, tk.Dir, err
}

func TestComposeReadsWhatServicesNeed(t *testing.T) {
	c, dir, err := composed(t, map[string]string{
		"environment/.env":       "TAG=16 # the newest\nPASSWORD='se cret'\n",
		"environment/web/x":      "",
		"environment/init.sql":   "select 1",
		"environment/db.env":     "A=file\nB=file\n",
		"environment/conf/a":     "",
		"environment/Dockerfile": "",
		"environment/docker-compose.yaml": `
name: shop
version: "3.8"
x-anything: {a: 1}
services:
  main:
    build: {context: "${CONTEXT_DIR}"}
    image: ${MAIN_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment: {DB: "postgres://db/${DBNAME:-shop}", PRICE: "$$5"}
    depends_on: {db: {condition: service_healthy}, web: {condition: service_started}}
    volumes: ["data:/shared:ro", "${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}"]
    ports: ["8080:80"]
  db:
    image: postgres:${TAG}
    command: postgres -c 'max_connections = 10' -c "a=\"b\""
    env_file: db.env
    environment: [B=own, "C=${PASSWORD}", FROM_HOST]
    restart: unless-stopped
    user: "70:70"
    shm_size: 64mb
    mem_limit: 1g
    pids_limit: 100
    cpus: 0.5
    healthcheck: {test: ["CMD", "pg_isready"], interval: 1s, retries: 30, start_period: 1m30s}
    volumes:
      - data:/var/lib/postgresql/data
      - ./init.sql:/docker-entrypoint-initdb.d/init.sql:ro
      - {type: tmpfs, target: /scratch}
      - {type: bind, source: ./conf, target: /etc/conf}
      - /anonymous
    networks: {back: {aliases: [postgres]}}
  web:
    build: {context: ./web, dockerfile: D, target: t, args: [V=1]}
    depends_on: [db]
    entrypoint: ""
    extra_hosts: ["there:10.1.2.3"]
    sysctls: {net.core.somaxconn: 1024}
    cap_drop: [ALL]
    cap_add: [CAP_CHOWN]
    privileged: false
    security_opt: ["no-new-privileges:true"]
    deploy: {resources: {limits: {memory: 64M, cpus: "2"}}}
  later: {image: x, profiles: [debug]}
volumes: {data: {}}
networks: {back: {internal: true}, front: }
`})
	if err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(dir, "environment")
	want := &Compose{
		File: "environment/docker-compose.yaml",
		Main: Service{Name: "main", Image: MainImage, Build: &ServiceBuild{Dir: env}, Command: []string{"sh", "-c", "sleep infinity"},
			Env:     []string{"DB=postgres://db/shop", "PRICE=$5"},
			After:   []After{{"db", Healthy}, {"web", Started}},
			Volumes: []ServiceVolume{{"data", "/shared", true}}},
		Beside: []Service{
			{Name: "db", Image: "postgres:16", Command: []string{"postgres", "-c", "max_connections = 10", "-c", `a="b"`},
				Env: []string{"A=file", "B=own", "C=se cret"}, Restart: "always", User: "70:70", ShmBytes: 64 << 20, MemBytes: 1 << 30, Pids: 100, CPUs: 0.5,
				Health:  &ServiceHealth{Test: []string{"CMD", "pg_isready"}, Interval: time.Second, Retries: 30, StartPeriod: 90 * time.Second},
				Volumes: []ServiceVolume{{"data", "/var/lib/postgresql/data", false}, {"", "/anonymous", false}},
				Files:   []ServiceFile{{env + "/init.sql", "/docker-entrypoint-initdb.d/init.sql"}, {env + "/conf", "/etc/conf"}},
				Tmpfs:   []string{"/scratch"}, Aliases: []string{"postgres"}},
			{Name: "web", Build: &ServiceBuild{Dir: env + "/web", Dockerfile: "D", Target: "t", Args: map[string]string{"V": "1"}},
				After: []After{{"db", Started}}, Entrypoint: []string{}, Hosts: []string{"there:10.1.2.3"}, MemBytes: 64 << 20, CPUs: 2,
				Sysctls: map[string]string{"net.core.somaxconn": "1024"}},
		},
	}
	if d := cmp.Diff(want, c, cmpopts.IgnoreTypes(Position{}), cmpopts.IgnoreFields(Compose{}, "Notes")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if c.Beside[0].Line != 14 {
		t.Errorf("db is said to stand in line %d", c.Beside[0].Line)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, n := range []string{"no port of this machine", "profile", "networks back, front are one", "default capabilities", "is a copy"} {
		if !strings.Contains(notes, n) {
			t.Errorf("nothing says %q: %s", n, notes)
		}
	}
}

// What would open a wall, or reach this machine, is refused where it stands.
func TestComposeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ service, want string }{
		"privileged":       {"privileged: true", "4:5: service \"db\": privileged: it takes a wall"},
		"host network":     {"network_mode: host", "4:5: service \"db\": network_mode:"},
		"other's network":  {"network_mode: \"container:x\"", "network_mode:"},
		"host pid":         {"pid: host", "pid: it takes a wall"},
		"host ipc":         {"ipc: host", "ipc: it takes a wall"},
		"users":            {"userns_mode: host", "userns_mode:"},
		"cgroup":           {"cgroup: host", "cgroup:"},
		"devices":          {"devices: [\"/dev/kvm\"]", "devices: it takes a wall"},
		"gpus":             {"gpus: all", "gpus:"},
		"reserved gpu":     {"deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}", "deploy.resources.reservations.devices: it takes a wall"},
		"capability":       {"cap_add: [SYS_ADMIN]", "cap_add[0]: capability SYS_ADMIN"},
		"raw sockets":      {"cap_add: [NET_RAW]", "capability NET_RAW"},
		"ipv6":             {"sysctls: {net.ipv6.conf.all.disable_ipv6: 0}", "has no IPv6"},
		"every one":        {"cap_add: [ALL]", "capability ALL"},
		"profile off":      {"security_opt: [\"seccomp:unconfined\"]", "security_opt: it takes"},
		"socket":           {"volumes: [\"/var/run/docker.sock:/var/run/docker.sock\"]", "volumes[0]: whoever holds the engine's socket"},
		"socket api":       {"use_api_socket: true", "use_api_socket:"},
		"host path":        {"volumes: [\"/etc:/host\"]", "volumes[0]: \"/etc\" is outside of the task's environment/"},
		"home":             {"volumes: [\"~/.ssh:/k\"]", "outside of the task"},
		"up":               {"volumes: [\"../tests:/t\"]", "outside of the task's environment/"},
		"up, long":         {"volumes: [{type: bind, source: ../solution, target: /s}]", "outside of the task's environment/"},
		"link out":         {"volumes: [\"./out:/t\"]", "a link leads out"},
		"link to tests":    {"volumes: [\"./in:/t\"]", "leads to tests"},
		"over proc":        {"volumes: [\"data:/proc/sys\"]", "nothing is put over /proc"},
		"over init":        {"tmpfs: /.assay", "nothing is put over /.assay"},
		"relative target":  {"volumes: [\"data:x\"]", "must be an absolute path"},
		"undeclared":       {"volumes: [\"other:/x\"]", "not declared"},
		"npipe":            {"volumes: [{type: npipe, source: a, target: /x}]", "type \"npipe\""},
		"build outside":    {"build: ../..", "outside of the task's"},
		"build from git":   {"build: https://example.com/x.git", "only directories of the task"},
		"ssh in build":     {"build: {context: ., ssh: [default]}", "build.ssh: is not supported"},
		"host gateway":     {"extra_hosts: [\"host.docker.internal:host-gateway\"]", "the machine itself is out of reach"},
		"sysctl":           {"sysctls: [kernel.msgmax=1]", "only net.*"},
		"extends":          {"extends: {file: /etc/passwd, service: x}", "extends: is not read"},
		"env file":         {"env_file: /proc/self/environ", "outside of the task's"},
		"cycle":            {"depends_on: [db]", "wait for each other"},
		"no such":          {"depends_on: [cache]", "there is no service \"cache\""},
		"waits for main":   {"depends_on: [main]", "it comes last"},
		"unknown":          {"frobnicate: 1", "frobnicate: is not known here"},
		"needed variable":  {"hostname: \"${NAME:?say which}\"", "variable NAME is not set: say which"},
		"open variable":    {"hostname: \"${NAME\"", "not closed"},
		"no dollar":        {"hostname: \"$ 5\"", "write $$"},
		"deep variable":    {"hostname: \"" + strings.Repeat("${A:-", 30) + strings.Repeat("}", 30) + "\"", "nested too deep"},
		"secret":           {"secrets: [x]", "secrets: is not supported"},
		"runtime":          {"runtime: nvidia", "runtime:"},
		"replicas":         {"deploy: {replicas: 3}", "runs once"},
		"no anchor":        {"labels: *a", "there is no anchor \"a\""},
		"anchor of itself": {"labels: &a {x: *a}", "there is no anchor"},
		"merge of text":    {"labels: &a x\n    deploy: {<<: *a}", "only mappings are merged"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "services:\n  db:\n    image: x\n    " + c.service + "\nvolumes: {data: {}}\n"
			_, _, err := composed(t, map[string]string{"environment/docker-compose.yaml": text, "environment/out": "-> /etc", "environment/in": "-> ../tests", "tests/test.sh": ""})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "environment/docker-compose.yaml:") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"include":        {"include: [/etc/x.yaml]\nservices: {}\n", "include: is not read"},
		"bind volume":    {"services: {a: {image: x}}\nvolumes: {v: {driver_opts: {type: none, o: bind, device: /}}}\n", "2:15: volumes.v.driver_opts: is not supported"},
		"foreign volume": {"services: {a: {image: x}}\nvolumes: {v: {external: true}}\n", "external: what is outside"},
		"macvlan":        {"services: {a: {image: x}}\nnetworks: {n: {driver: macvlan}}\n", "driver: is not supported"},
		"host net":       {"services: {a: {image: x}}\nnetworks: {n: {name: host, external: true}}\n", "external"},
		"no image":       {"services: {a: {}}\n", "neither image nor build"},
		"name":           {"services: {../a: {image: x}}\n", "service's name"},
		"many": {"services:\n" + func() (s string) {
			for i := range 40 {
				s += "  s" + strings.Repeat("x", i) + ": {image: x}\n"
			}
			return s
		}(), "40 services are more than 32"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := composed(t, map[string]string{"environment/docker-compose.yaml": c.text})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Anchors and merge keys are expanded, up to a bound.
func TestComposeAnchors(t *testing.T) {
	c, _, err := composed(t, map[string]string{"environment/docker-compose.yaml": `
x-env: &env
  A: one
  B: two
x-base: &base
  image: base
  restart: always
  environment: {<<: *env, B: three}
services:
  a: {<<: *base}
  b:
    image: own
    <<: [*base, {user: "1", restart: "no"}]
    environment:
      C: four
      <<: *env
`})
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Beside[0], c.Beside[1]
	if a.Image != "base" || a.Restart != "always" || !cmp.Equal(a.Env, []string{"A=one", "B=three"}) ||
		b.Image != "own" || b.Restart != "always" || b.User != "1" || !cmp.Equal(b.Env, []string{"A=one", "B=two", "C=four"}) {
		t.Errorf("%+v\n%+v", a, b)
	}
	bomb := "x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("x%d: &x%d [%s*x%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*x%d, ", i), 8), i)
	}
	if _, _, err := composed(t, map[string]string{"environment/docker-compose.yaml": bomb}); err == nil || !strings.Contains(err.Error(), "more than 20000 values") {
		t.Errorf("%v", err)
	}
}

// An old task's file lies beside its tests and solution.
func TestComposeOfOldTasks(t *testing.T) {
	read := func(extra string) (*Compose, error) {
		dir := files(t, map[string]string{"tests/t": "", "solution.sh": "", "data/x": "", "docker-compose.yaml": `
services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    volumes: ["${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}", "${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}"]
  api:
    build: ./data
    depends_on: []
` + extra})
		return (&Task{Dir: dir, Format: FormatTerminalBench1}).Compose(nil)
	}
	c, err := read("")
	if err != nil {
		t.Fatal(err)
	}
	if c.Main.Name != "main" || !cmp.Equal(c.Main.Aliases, []string{"client"}) || len(c.Beside) != 1 || len(c.Main.Files) != 0 {
		t.Errorf("%+v", c)
	}
	for _, v := range []string{"./tests:/t", "./solution.sh:/s", ".:/all"} {
		if _, err := read("    volumes: [\"" + v + "\"]\n"); err == nil || !strings.Contains(err.Error(), "tests or solution") {
			t.Errorf("%s: %v", v, err)
		}
	}
}

func TestComposeVariables(t *testing.T) {
	v := &composeVars{values: map[string]string{"A": "a", "EMPTY": ""}, unset: map[string]bool{}}
	for in, want := range map[string]string{
		"$A": "a", "${A}x": "ax", "$A$A": "aa", "$$A": "$A", "${EMPTY:-d}": "d", "${EMPTY-d}": "", "${NO-d}": "d", "${NO:-${A}}": "a",
		"${A:+yes}": "yes", "${EMPTY:+yes}": "", "${EMPTY+yes}": "yes", "${NO+yes}": "", "x${NO}y": "xy", "a$": "a$", "${A:?no}": "a", "${NO:-a b}c": "a bc",
	} {
		if got, err := v.expand(in); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", in, got, err, want)
		}
	}
	big := strings.Repeat("${B}", 1000)
	v.values["B"] = strings.Repeat("x", 1000)
	if _, err := v.expand(big); err == nil {
		t.Error("a value of a megabyte was made")
	}
}

func FuzzCompose(f *testing.F) {
	f.Add("services:\n  main: {}\n  db: {image: \"x:${V:-1}\", volumes: [\"./a:/b\"], depends_on: [main]}\n", "A=1")
	f.Add("services: {a: {image: x, healthcheck: {test: x, interval: 1s}, deploy: {resources: {limits: {memory: 1g}}}}}\n", "")
	f.Add("x: &x {image: y}\nservices: {a: {<<: *x}, b: {<<: [*x, *x], labels: &l [1, *x]}}\n", "")
	f.Add("services: {a: {build: {context: ., args: {a: 1}}, command: \"a 'b\", env_file: [{path: .env}]}}\nvolumes: {v: }\n", "A=$B")
	f.Fuzz(func(t *testing.T, text, env string) {
		if len(text) > 4000 {
			return
		}
		c, dir, err := composed(t, map[string]string{"environment/docker-compose.yaml": text, "environment/.env": env})
		if err != nil || c == nil {
			return
		}
		for _, s := range append(c.Beside, c.Main) {
			for _, p := range s.Files {
				if !strings.HasPrefix(p.Source, dir+"/environment") {
					t.Errorf("%s is outside", p.Source)
				}
			}
			if b := s.Build; b != nil && !strings.HasPrefix(b.Dir, dir+"/environment") {
				t.Errorf("%s is built outside", b.Dir)
			}
		}
	})
}

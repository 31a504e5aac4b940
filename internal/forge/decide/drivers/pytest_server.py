"""Runs chosen tests of a suite on changed sources, many times: a process that
has imported pytest and the packages of others, but nothing of the project, is
forked for each run. Requests and answers are lines of JSON."""
import base64
import importlib
import importlib.util
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import threading
import time
import warnings

# It ends every process that a run leaves behind, and empties /tmp: in a sandbox alone.
if os.path.dirname(os.path.abspath(__file__)) != "/.assay-decide" or len([p for p in os.listdir("/proc") if p.isdigit()]) > 20:
    sys.exit("this runs in a sandbox of its own")
STATE = json.loads(os.environ.pop("ASSAY_STATE"))
sys.argv, sys.path[:] = STATE["argv"], STATE["path"]
IN, OUT = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
null = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(null, fd)
os.close(null)
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a cached file could be older than the source that it is taken for
import pytest  # noqa: E402  from the suite's own paths


def ours(name):
    """A module that lies beside this file."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytest_swap, pytest_session = ours("pytest_swap"), ours("pytest_session")

WORK = os.getcwd()
SENTINEL = "assay--tests"
MESSAGE = 3000  # characters of a failure that are kept
TREE = 20000  # files of a tree that is watched


def dotted(nodeid):
    """The id of a report that does not name files."""
    path, _, rest = nodeid.partition("::")
    if path.endswith(".py"):
        path = path[:-3]
    head, bracket, params = rest.partition("[")
    names = head.split("::")
    return ".".join([path.replace("/", "."), *names[:-1]]) + "::" + names[-1] + bracket + params


def clean(nodeid):
    """As reports spell it: a control character is its picture."""
    return "".join(chr(0x2400 + ord(c)) if c < " " else "\u2421" if c == "\x7f" else " " if c in "\u2028\u2029" or "\x80" <= c < "\xa0" else c for c in nodeid)


class Recorder:
    """A plugin of the forked pytest: chooses, orders, and tells each result."""

    def __init__(self, req, out):
        self.out, self.worst = out, {}  # without out nothing is told
        self.stop, self.session = req.get("stop"), None
        want = req.get("want")
        self.want = None if want is None else {t: i for i, t in enumerate(want)}
        if self.want is not None and req.get("last"):
            self.want[req["last"]] = len(want)
        self.ids = {}

    def tell(self, **event):
        if self.out is not None:
            os.write(self.out, json.dumps(event).encode() + b"\n")

    def key(self, nodeid):
        return self.ids.get(nodeid) or clean(nodeid)

    def pytest_sessionstart(self, session):
        self.session = session

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        for item in items:
            a, b = clean(item.nodeid), dotted(clean(item.nodeid))
            self.ids[item.nodeid] = b if self.want is not None and a not in self.want and b in self.want else a
        if self.want is not None:
            items[:] = sorted((i for i in items if self.key(i.nodeid) in self.want), key=lambda i: self.want[self.key(i.nodeid)])

    def pytest_runtest_logstart(self, nodeid, location):
        self.tell(s=self.key(nodeid))

    def pytest_runtest_logreport(self, report):
        status = "passed"
        if hasattr(report, "wasxfail"):
            status = "xfailed" if report.skipped else "xpassed" if report.passed else "failed"
        elif report.skipped:
            status = "skipped"
        elif report.failed:
            status = "failed" if report.when == "call" else "error"
        rank = ["passed", "xpassed", "xfailed", "skipped", "failed", "error"]
        old = self.worst.get(report.nodeid, ("passed", ""))
        if rank.index(status) > rank.index(old[0]):
            text = ""
            if status in ("failed", "error"):
                try:
                    text = str(report.longreprtext)
                except Exception as e:  # a representation that cannot be shown fails no run
                    text = repr(e)
            old = self.worst[report.nodeid] = (status, text[-MESSAGE:])
        if report.when == "teardown":
            self.worst.pop(report.nodeid, None)
            self.tell(e=self.key(report.nodeid), o=old[0], m=old[1])
            if self.stop and old[0] != "passed" and self.session is not None:
                self.session.shouldfail = "decided"

    def pytest_collectreport(self, report):
        if report.failed:
            self.tell(c=report.nodeid, m=str(report.longrepr)[-MESSAGE:])


def arguments(req):
    """The command's own, with files in the place of the sentinel."""
    args, out, skip = STATE["argv"][1:], [], False
    for i, a in enumerate(args):
        if a == "assay_pytest" and args[i - 1] == "-p":
            out.pop()
        elif a.startswith("--assay-report="):
            pass
        elif skip:
            skip = False
        elif a in ("--junitxml", "--junit-xml"):
            skip = True
        elif a.startswith(("--junitxml=", "--junit-xml=")):
            pass
        elif a == SENTINEL:
            out += req.get("files") or []
        else:
            out.append(a)
    out += ["--continue-on-collection-errors", "--maxfail=0"]
    for module, off in (("xdist", ["-n", "0"]), ("pytest_cov", ["--no-cov"]), ("pytest_randomly", ["-p", "no:randomly"])):
        if importlib.util.find_spec(module):
            out += off
    return out


def child(req, out):
    sys.dont_write_bytecode = req["op"] != "watch"  # the healthy suite's own, rewritten tests above all
    IN.close()
    OUT.close()
    random.seed(0)
    recorder = Recorder(req, out)
    try:
        code = int(pytest.main(arguments(req), plugins=[recorder]))
        more = third_party() if req.get("modules") else []
        recorder.tell(x=code, modules=more)
    except BaseException as e:
        recorder.tell(x=3, m=repr(e)[-MESSAGE:])
    os._exit(0)


def third_party():
    """Modules of others that the suite imports, in their order; plugins of
    pytest want to be rewritten when they are imported, and stay out."""
    plugins = set()
    try:
        from importlib import metadata

        entries = metadata.entry_points()
        entries = entries.select(group="pytest11") if hasattr(entries, "select") else entries.get("pytest11", [])
        plugins = {e.value.split(":")[0].split(".")[0] for e in entries}
    except Exception:
        return []
    stdlib = os.path.dirname(os.__file__)
    out = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        inside = "/site-packages/" in file or "/dist-packages/" in file
        if name == "__main__" or name.split(".")[0] in plugins or name.startswith("_pytest.assertion.rewrite"):
            continue
        if inside or file.startswith(stdlib + "/") or not file and name in sys.builtin_module_names:
            out.append(name)
    return out


def preload(names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException:
                pass
    return threading.active_count() == 1


def listing():
    """The tree's files, to see what a run leaves behind; None: too many."""
    out, stack = {}, [WORK]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for e in entries:
                    if e.name in ("__pycache__", ".pytest_cache", ".git", "site-packages", "node_modules"):
                        continue
                    st = e.stat(follow_symlinks=False)
                    if e.is_dir(follow_symlinks=False):
                        out[e.path] = st.st_mode
                        stack.append(e.path)
                    else:
                        out[e.path] = (st.st_mode, st.st_size, st.st_mtime_ns, st.st_ino)
        except OSError:
            pass
        if len(out) > TREE:
            return None
    return out


class Files:
    """Sources as a request wants them, and back."""

    turn = 0

    def __init__(self, files):
        self.old, self.hidden = [], []
        Files.turn += 1
        for path, data in sorted((files or {}).items()):
            path = os.path.join(WORK if not STATE.get("root") else STATE["root"], path)
            try:
                st = os.stat(path)
                with open(path, "rb") as f:
                    self.old.append((path, f.read(), st))
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self.old.append((path, None, None))
            self.hide(path)
            with open(path, "wb") as f:
                f.write(base64.b64decode(data))
            if self.old[-1][2] is not None:
                # never the time of the source that a cached file of bytecode was made of
                os.utime(path, ns=(self.old[-1][2].st_atime_ns, self.old[-1][2].st_mtime_ns + Files.turn * 2_000_000_000))

    def hide(self, path):
        """Takes cached bytecode of a source out of the way: some is not compared with its source."""
        if path.endswith(".py"):
            cached = importlib.util.cache_from_source(path)
            try:
                os.rename(cached, cached + ".assay")
                self.hidden.append(cached)
            except OSError:
                pass

    def restore(self):
        for cached in self.hidden:
            os.rename(cached + ".assay", cached)
        for path, data, st in self.old:
            if data is None:
                os.unlink(path)
                continue
            with open(path, "wb") as f:
                f.write(data)
            os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def processes():
    return {int(p) for p in os.listdir("/proc") if p.isdigit()}


def forked(req, work):
    """Has a fork do the work, which tells of it through a pipe, and ends what it leaves."""
    before = processes()
    r, w = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        os.setsid()
        if req.get("cpu"):
            resource.setrlimit(resource.RLIMIT_CPU, (req["cpu"], req["cpu"] + 5))
        work(w)
        os._exit(0)
    os.close(w)
    events, timed = read(r, began + req["limit"])
    for p in [pid] + sorted(processes() - before):
        try:
            os.kill(p, signal.SIGKILL)
        except OSError:
            pass
    _, status = os.waitpid(pid, 0)
    os.close(r)
    answer = summary(events)
    timed = timed or not answer["ended"] and status & 127 == signal.SIGXCPU
    answer.update(timed=timed, signal=status & 127 if not answer["ended"] else 0, ms=(time.monotonic() - began) * 1000)
    return answer


class Waiting:
    """A process that has collected the healthy suite, for changes that it can take in memory."""

    def __init__(self, req):
        asks, self.asks = os.pipe()
        self.answers, answers = os.pipe()
        self.rest = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.asks)
            os.close(self.answers)
            IN.close()
            OUT.close()
            os.setsid()
            random.seed(0)
            recorder = Recorder(req, None)
            session = pytest_session.Session(sys.modules["__main__"], recorder, os.fdopen(asks, "rb"), os.fdopen(answers, "wb"))
            try:
                pytest.main(arguments(req), plugins=[recorder, session])
            finally:
                os._exit(1)
        os.close(asks)
        os.close(answers)

    def ask(self, req, limit):
        """Its answer; None: it gives none."""
        if req is not None:
            try:
                self.write(json.dumps(req).encode() + b"\n")
            except OSError:
                return None
        deadline = time.monotonic() + limit
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                return None
            chunk = os.read(self.answers, 1 << 20)
            if not chunk:
                return None
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def write(self, data):
        while data:
            data = data[os.write(self.asks, data):]

    def end(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.asks)
        os.close(self.answers)


def collect(req):
    """Makes the process that waits, and learns from it what the tests call."""
    global WAITING, TEMPORARY
    WAITING = Waiting(req)
    ready = WAITING.ask(None, req["limit"])
    answer = ready and ready.get("single") and WAITING.ask(dict(req, op="cover"), req["limit"] + 10)
    TEMPORARY |= set(os.listdir("/tmp"))
    if not answer:
        forget()
        return {"collect": [["", "the collected session does not answer"]]}
    return answer


def forget():
    global WAITING
    if WAITING:
        WAITING.end()
    WAITING = None


def run(req):
    files = Files(req.get("files_b64"))
    answer = None
    if WAITING and req["op"] == "run" and not req.get("modules"):
        answer = WAITING.ask(req, req["limit"] + 10)
        if answer is None:
            forget()
        elif answer.get("unfit"):
            answer = None
    if answer is None:
        answer = forked(req, lambda out: child(req, out))
    files.restore()
    tidy()
    return answer


def tidy():
    for name in os.listdir("/tmp"):
        if name not in TEMPORARY:
            p = "/tmp/" + name
            shutil.rmtree(p, ignore_errors=True) if os.path.isdir(p) and not os.path.islink(p) else os.unlink(p)


def read(fd, deadline):
    data, timed = [], False
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            timed = True
            break
        ready, _, _ = select.select([fd], [], [], left)
        if not ready:
            continue
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            break
        data.append(chunk)
        if b'{"x":' in chunk:  # the end, though children of it hold the pipe
            break
    return b"".join(data), timed


def summary(events):
    out = {"results": [], "running": "", "collect": [], "ended": False, "modules": [], "exit": None, "text": "", "calls": []}
    for line in events.split(b"\n"):
        try:
            e = json.loads(line)
        except ValueError:
            continue
        if "s" in e:
            out["running"] = e["s"]
        elif "e" in e:
            out["results"].append([e["e"], e["o"], e["m"]])
            out["running"] = ""
        elif "k" in e:
            out["calls"].append([e["k"], e["f"]])
        elif "c" in e:
            out["collect"].append([e["c"], e["m"]])
        elif "x" in e:
            out.update(ended=True, exit=e["x"], modules=e.get("modules") or [], text=e.get("m") or "")
    return out


def say(answer):
    OUT.write(b"\nassay " + json.dumps(answer).encode() + b"\n")
    OUT.flush()


def imported():
    """What this process has imported of the project: changes of it would not be seen."""
    root = os.path.realpath(STATE.get("root") or WORK) + os.sep
    files = [getattr(m, "__file__", None) or "" for m in list(sys.modules.values())]
    return [f for f in files if os.path.realpath(f).startswith(root) and not any(p in f for p in ("/site-packages/", "/dist-packages/"))]


TEMPORARY, WAITING = set(os.listdir("/tmp")), None
say({"ready": sys.version.split()[0]})
KNOWN, LOUD = None, set()
for request in IN:
    req = json.loads(request)
    STATE["root"] = req.get("root")
    if req["op"] == "preload":
        say({"single": preload(req["names"])})
        continue
    if req["op"] == "forget":
        forget()
        say({})
        continue
    if req["op"] == "watch" or KNOWN is None:
        KNOWN = listing()
    try:
        answer = collect(req) if req["op"] == "collect" else run(req)
    except Exception as e:
        say({"fault": repr(e)})
        continue
    now = listing()
    answer["dirty"] = False
    if KNOWN is None or now is None:
        answer["dirty"] = False
    else:
        differ = {p for p in KNOWN.keys() | now.keys() if KNOWN.get(p) != now.get(p)}
        if req["op"] == "watch":  # the healthy suite's own traces
            LOUD, KNOWN, answer["own"] = differ, now, imported()
        answer["dirty"] = bool(differ - LOUD)
    say(answer)

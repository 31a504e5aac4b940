"""A session of pytest that has collected the healthy suite and then waits: it
is forked for every run whose change it can take in memory, and the fork runs
the tests that enter a changed function."""
import base64
import gc
import json
import os
import random
import sys
import threading

import pytest
import pytest_swap

CHILDREN = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.exec", "os.spawn"}
MONITOR = getattr(sys, "monitoring", None)
TOOL = 4  # an id that coverage, debuggers and profilers do not use


class Calls:
    """Which functions are called, from one look to the next."""

    def __init__(self):
        self.seen, self.children, self.on = {}, False, True
        sys.addaudithook(self.audit)
        if MONITOR:
            MONITOR.use_tool_id(TOOL, "assay")
            MONITOR.register_callback(TOOL, MONITOR.events.PY_START, self.started)
            MONITOR.register_callback(TOOL, MONITOR.events.PY_RESUME, self.started)
            MONITOR.set_events(TOOL, MONITOR.events.PY_START | MONITOR.events.PY_RESUME)
        self.look()

    def audit(self, event, args):
        if self.on and event in CHILDREN:
            self.children = True

    def started(self, code, offset):
        self.seen[id(code)] = code
        return MONITOR.DISABLE

    def trace(self, frame, event, arg):
        code = frame.f_code
        self.seen[id(code)] = code

    def disturbed(self):
        """A test has taken the place of what looks."""
        return MONITOR is None and sys.gettrace() != self.trace

    def look(self):
        before, self.seen = self.seen, {}
        if MONITOR:
            MONITOR.restart_events()
        else:
            threading.settrace(self.trace)
            sys.settrace(self.trace)
        return before

    def end(self):
        self.on = False
        if MONITOR:
            MONITOR.set_events(TOOL, 0)
            MONITOR.free_tool_id(TOOL)
        else:
            threading.settrace(None)
            sys.settrace(None)


class Session:
    """The plugin that waits. server is the module of the process that it serves."""

    def __init__(self, server, recorder, asks, answers):
        self.server, self.recorder, self.asks, self.answers = server, recorder, asks, answers
        self.root = os.path.realpath(server.STATE["root"])
        self.calls = Calls()
        self.wide = {}  # fixtures that several tests share: what their set-up called
        self.cover = {}  # by test: the functions that it calls, None where that is not known

    def ours(self, filename):
        return filename.startswith(self.root + os.sep) and "/site-packages/" not in filename and "/dist-packages/" not in filename

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        called = self.calls.look()
        self.called = {pytest_swap.key(c) for c in called.values() if self.ours(c.co_filename)}
        self.session, self.items = session, {}
        for item in session.items:
            self.items.setdefault(self.recorder.key(item.nodeid), []).append(item)
        self.prepare()
        self.say({"ready": "collected", "single": threading.active_count() == 1})
        for line in self.asks:
            self.serve(json.loads(line))
        os._exit(0)

    def prepare(self):
        self.modules = {}
        for m in list(sys.modules.values()):
            file = getattr(m, "__file__", None) or ""
            loader = type(getattr(getattr(m, "__spec__", None), "loader", None)).__name__
            if file.endswith(".py") and self.ours(os.path.realpath(file)):
                try:
                    with open(file, "rb") as f:
                        text = f.read()
                except OSError:
                    continue
                self.modules[os.path.realpath(file)] = (file, text, loader == "SourceFileLoader")
        self.parsed = {}
        self.living = pytest_swap.Living(self.ours)

    def say(self, answer):
        self.answers.write(json.dumps(answer).encode() + b"\n")
        self.answers.flush()

    def module(self, path):
        if path not in self.modules or not self.modules[path][2]:
            raise pytest_swap.Unfit("%s is not imported by all" % path)
        if path not in self.parsed:
            file, text, _ = self.modules[path]
            self.parsed[path] = pytest_swap.Module(file, text)
        return self.parsed[path]

    def plan(self, req):
        """Functions and their new codes, and the tests that call one."""
        pairs, keys = [], set()
        for name, data in (req.get("files_b64") or {}).items():
            path = os.path.realpath(os.path.join(self.root, name))
            for old, new, itself in self.module(path).swaps(base64.b64decode(data), self.called):
                functions = self.living.of(old)
                pairs += [(f, new) for f in functions]
                if itself:
                    keys.add(pytest_swap.key(old))
        want = [t for t in req["want"] if t in self.items]
        if len(want) < len(req["want"]):
            raise pytest_swap.Unfit("tests are not collected")
        if req.get("files_b64"):
            enters = {t for t in want if self.cover.get(t) is None or not keys.isdisjoint(self.cover[t])}
            if not req.get("stop"):  # all are wanted: also those to which others hand something on
                enters = set(want)
            want = [t for t in want if t in enters]
        return pairs, want

    def serve(self, req):
        if req["op"] == "cover":
            return self.learn(req)
        try:
            if not self.cover:
                raise pytest_swap.Unfit("not known what tests call")
            pairs, want = self.plan(req)
        except pytest_swap.Unfit as e:
            self.say({"unfit": str(e)})
            return
        if not want:
            self.say(dict(self.server.summary(b""), chosen=[], swapped=True, ended=True, timed=False, ms=0))
            return
        answer = self.server.forked(req, lambda out: self.tests(req, out, want, pairs))
        self.say(dict(answer, chosen=want, swapped=True))

    def learn(self, req):
        """Runs the healthy suite with an eye on what each test calls."""
        answer = self.server.forked(req, lambda out: self.tests(req, out, [t for t in req["want"] if t in self.items], [], watch=True))
        names = {}
        for test, keys in answer.pop("calls", []):
            self.cover[test] = None if keys is None else {names.setdefault(k, k) for k in map(tuple, keys)}
        self.calls.end()
        gc.collect()
        gc.freeze()
        self.say(answer)

    def tests(self, req, out, want, pairs, watch=False):
        """In the fork: never returns."""
        recorder = self.recorder
        recorder.out, recorder.stop = out, req.get("stop")
        os.close(self.asks.fileno())
        os.close(self.answers.fileno())
        try:
            random.seed(0)
            for function, code in pairs:
                function.__code__ = code
            if req.get("last") in want:
                want = [t for t in want if t != req["last"]] + [req["last"]]
            items = [i for t in want for i in self.items[t]]
            self.session.items, self.session.testscollected = items, len(items)
            if watch:
                self.session.config.pluginmanager.register(Watch(self), "assay-watch")
            for i, item in enumerate(items):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[i + 1] if i + 1 < len(items) else None)
                if self.session.shouldfail or self.session.shouldstop:
                    break
            recorder.tell(x=0)
        except BaseException as e:
            recorder.tell(x=3, m=repr(e)[-3000:])
        os._exit(0)


class Watch:
    """In the fork that learns: tells of each test what it calls."""

    def __init__(self, session):
        self.s = session
        self.keys = {}

    def key(self, code):
        k = id(code)
        if k not in self.keys:
            self.keys[k] = (pytest_swap.key(code) if self.s.ours(code.co_filename) else None, code)
        return self.keys[k][0]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        calls = self.s.calls
        if fixturedef.scope == "function":
            yield
            return
        was, calls.children = calls.children, False
        outer = calls.look()
        yield
        inside = calls.look()
        self.s.wide[id(fixturedef)] = (inside, calls.children, fixturedef)
        calls.children = was or calls.children
        calls.seen = outer
        calls.seen.update(inside)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        calls = self.s.calls
        calls.look()
        calls.children = False
        yield
        children = calls.children or calls.disturbed()
        records = [calls.look()]
        for defs in getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).values():
            for d in defs:
                if id(d) in self.s.wide:
                    records.append(self.s.wide[id(d)][0])
                    children = children or self.s.wide[id(d)][1]
        keys = {self.key(c) for r in records for c in list(r.values())} - {None}
        self.s.recorder.tell(k=self.s.recorder.key(item.nodeid), f=None if children else sorted(keys))

"""A pytest plugin that records which functions of a project each test runs, for assay.

    ASSAY_COVER=PREFIX ASSAY_COVER_ROOT=DIR PYTHONPATH=HERE python -m pytest -p assay_cover

It needs nothing but pytest. Each process writes PREFIX.PID, one JSON object a line:
{"test": ID, "files": {"a.py": [[5, 8]]}, "unknown": true} (unknown: the test started other
programs, which are not followed), and at the end {"static": {"a.py": [[1, 4]]}}, the lines that
belong to the body of no function.
"""

import ast
import json
import os
import sys
import threading

import pytest

ROOT = os.path.realpath(os.environ.get("ASSAY_COVER_ROOT", "."))
CHILDREN = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.exec", "os.spawn"}
FOREIGN = ("/site-packages/", "/dist-packages/", "/.venv/", "/node_modules/", "/.tox/")
MONITOR = getattr(sys, "monitoring", None)
TOOL = 4  # an id that coverage, debuggers and profilers do not use


class Cover:
    def __init__(self, prefix):
        self.out = open("%s.%d" % (prefix, os.getpid()), "a", encoding="utf-8", errors="backslashreplace")
        self.seen = {}  # id of a code object: the object, so that it stays
        self.unknown = False
        self.wide = {}  # fixtures that several tests share: what their set-up ran
        self.names = {}  # of files: relative to the root, or None
        self.bodies = {}  # relative name: [(def line, first and last line of the body)]
        self.places = {}  # id of a code object: (file, range)
        self.kept = []  # whose ids these are
        sys.addaudithook(self.audit)
        if MONITOR:
            MONITOR.use_tool_id(TOOL, "assay")
            MONITOR.register_callback(TOOL, MONITOR.events.PY_START, self.started)
            MONITOR.set_events(TOOL, MONITOR.events.PY_START)

    def audit(self, event, args):
        if event in CHILDREN:
            self.unknown = True

    def started(self, code, offset):
        self.seen[id(code)] = code
        return MONITOR.DISABLE

    def trace(self, frame, event, arg):
        code = frame.f_code
        self.seen[id(code)] = code

    def watch(self):
        """Begins a new record and returns the one before."""
        before, self.seen = self.seen, {}
        if MONITOR:
            MONITOR.restart_events()
        else:
            threading.settrace(self.trace)
            sys.settrace(self.trace)
        return before

    def name(self, filename):
        try:
            return self.names[filename]
        except KeyError:
            path = os.path.realpath(os.path.join(ROOT, filename))
            ours = path.startswith(ROOT + os.sep) and path.endswith(".py") and not any(f in path for f in FOREIGN)
            name = self.names[filename] = os.path.relpath(path, ROOT) if ours else None
            if name and name not in self.bodies:
                self.bodies[name] = self.parse(path)
            return name

    def parse(self, path):
        try:
            with open(path, "rb") as f:
                text = f.read()
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return None
        found = []
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno] + [d.lineno for d in node.decorator_list])
                found.append((first, node.lineno, node.body[0].lineno, node.end_lineno))
        return found

    def place(self, code):
        """The file of a code object, and the lines of the function that it is, if it is one."""
        try:
            return self.places[id(code)]
        except KeyError:
            name, lines = self.name(code.co_filename), None
            if name and self.bodies[name] is not None:
                at = code.co_firstlineno
                for first, line, begin, end in self.bodies[name]:
                    if at == first or at == line:
                        lines = [begin, end]
                if lines is None and code.co_name != "<module>":
                    # A lambda, a comprehension, a class: the lines that it has.
                    all_lines = [ln for _, _, ln in code.co_lines() if ln] if hasattr(code, "co_lines") else [at]
                    lines = [at, max(all_lines + [at])]
            self.places[id(code)] = name, lines
            self.kept.append(code)
            return name, lines

    def files(self, records):
        out = {}
        for seen in records:
            for code in list(seen.values()):
                name, lines = self.place(code)
                if name:
                    have = out.setdefault(name, [])
                    if lines and lines not in have:
                        have.append(lines)
        return out

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            yield
            return
        was, self.unknown = self.unknown, False
        outer = self.watch()
        yield
        inner = self.watch()
        self.wide[id(fixturedef)] = (inner, self.unknown, fixturedef)
        self.unknown = was or self.unknown
        self.seen = outer
        self.seen.update(inner)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.watch()
        self.unknown = False
        yield
        records, unknown = [self.watch()], self.unknown
        for defs in getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).values():
            for d in defs:
                if id(d) in self.wide:
                    records.append(self.wide[id(d)][0])
                    unknown = unknown or self.wide[id(d)][1]
        line = {"test": item.nodeid, "files": self.files(records)}
        if unknown:
            line["unknown"] = True
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self):
        sys.settrace(None)
        threading.settrace(None)
        for module in list(sys.modules.values()):
            filename = getattr(module, "__file__", None)
            if isinstance(filename, str):
                self.name(filename)
        static = {}
        for name, bodies in self.bodies.items():
            if bodies is None:
                continue
            inside = sorted((begin, end) for _, _, begin, end in bodies)
            ranges, at = [], 1
            for begin, end in inside:
                if begin > at:
                    ranges.append([at, begin - 1])
                at = max(at, end + 1)
            ranges.append([at, 0])  # to the end
            static[name] = ranges
        self.out.write(json.dumps({"static": static}) + "\n")
        self.out.close()


def pytest_configure(config):
    prefix = os.environ.get("ASSAY_COVER")
    if prefix:
        config.pluginmanager.register(Cover(prefix), "assay-cover")

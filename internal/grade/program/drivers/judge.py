# Tries the cases of functions and queries in a container, for harnesses that
# run a task's test.sh. usage: judge.py GROUP CASES [REFERENCE], in the
# candidate's directory; GROUP is JSON. Prints STATUS<TAB>NAME:ID for each case.
#
# An honest candidate gets the same results here and from assay itself. It is
# weaker all the same: judge and candidate are in one container, and where this
# is not root, of one user. The comparisons are those of assay's own judge, on
# the same typed plain data; no object of the candidate's is ever in here.
import json
import math
import os
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

MAX_FRAME = 8 << 20
MAX_DEPTH = 100
NOBODY = 65534
TAGGED = ("datetime", "date", "time", "timedelta", "decimal", "fraction", "undefined", "error", "object")
SEQUENCES = ("list", "tuple", "iter")
WIRED = ["/bin/sh", "-c", 'exec "$@" 3>&1 1>&2 4<&0 0</dev/null', "sh"]


class NotPlain(Exception):
    pass


class Failed(Exception):
    """A case's result: (status, why)."""


# Values are (kind, content): a dict's content is a list of pairs.


def parse(text):
    def pairs(items):
        if len({k for k, _ in items}) != len(items):
            raise NotPlain("a key twice")
        return ("object", items)

    def constant(name):
        raise NotPlain(name)

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=_float)
    except (ValueError, RecursionError) as e:
        raise NotPlain(str(e))


def _float(text):
    f = float(text)
    if math.isinf(f):
        raise NotPlain("out of range")
    return f


def plain(v, depth=0):
    if depth > MAX_DEPTH:
        raise NotPlain("nested too deeply")
    if v is None:
        return ("null", None)
    if isinstance(v, bool):
        return ("bool", v)
    if isinstance(v, int):
        return ("int", v)
    if isinstance(v, float):
        return ("float", v)
    if isinstance(v, str):
        return ("string", v)
    if isinstance(v, list):
        return ("list", [plain(x, depth + 1) for x in v])
    items = v[1]
    if items and items[0][0].startswith("$"):
        if len(items) != 1:
            raise NotPlain("an object with other keys than " + items[0][0])
        return tag(items[0][0][1:], items[0][1], depth)
    if any(k.startswith("$") for k, _ in items):
        raise NotPlain("an object with a $ key")
    return ("dict", [(("string", k), plain(x, depth + 1)) for k, x in items])


def tag(name, body, depth):
    if name == "float" and body in ("nan", "inf", "-inf"):
        return ("float", float(body))
    if name == "int" and isinstance(body, str) and re.match(r"-?0x[0-9a-fA-F]+\Z", body):
        return ("int", int(body, 16))
    if name == "bytes" and isinstance(body, str):
        import binascii
        try:
            return ("bytes", binascii.a2b_base64(body))
        except binascii.Error as e:
            raise NotPlain(str(e))
    if name in TAGGED and isinstance(body, str):
        return ("named", (name, body))
    if not isinstance(body, list):
        raise NotPlain("$" + name)
    if name == "dict":
        made = [tuple(plain(x, depth + 1) for x in p) for p in body if isinstance(p, list) and len(p) == 2]
        if len(made) != len(body) or len({key(k, True) for k, _ in made}) != len(made):
            raise NotPlain("$dict")
        return ("dict", made)
    items = [plain(x, depth + 1) for x in body]
    if name in ("tuple", "iter"):
        return (name, items)
    if name == "set" and len({key(x, True) for x in items}) == len(items):
        return ("set", items)
    if name == "complex" and [k for k, _ in items] == ["float", "float"]:
        return ("complex", complex(items[0][1], items[1][1]))
    if name == "range" and [k for k, _ in items] == ["int"] * 3 and items[2][1] != 0:
        return ("range", range(*[x for _, x in items]))
    raise NotPlain("$" + name)


def key(v, bools):
    """The same for two values if and only if they are exactly equal."""
    kind, x = v
    if kind == "bool":
        return ("int", int(x)) if bools else v
    if kind == "float":
        if math.isnan(x):
            return ("nan",)
        return ("int", int(x)) if math.isfinite(x) and x == math.floor(x) else v
    if kind == "complex":
        if x.imag == 0 and bools:
            return key(("float", x.real), bools)
        return (kind, key(("float", x.real), bools), key(("float", x.imag), bools))
    if kind in ("list", "tuple", "iter"):
        return (kind, tuple(key(y, bools) for y in x))
    if kind == "set":
        return (kind, frozenset(key(y, bools) for y in x))
    if kind == "dict":
        return (kind, frozenset((key(k, bools), key(y, bools)) for k, y in x))
    if kind == "range":
        return (kind, hash_range(x))
    return v


def hash_range(r):
    n = max(0, -((r.start - r.stop) // r.step)) if r.step > 0 else max(0, -((r.stop - r.start) // -r.step))
    return (0,) if n == 0 else (1, r.start) if n == 1 else (n, r.start, r.step)


class Equality:
    def __init__(self, abs_tol, rel_tol, bools):
        self.abs, self.rel, self.bools = abs_tol, rel_tol, bools

    def key(self, v):
        return key(v, self.bools)

    def number(self, v):
        return v[0] in ("int", "float") or v[0] == "bool" and self.bools

    def numbers(self, want, got):
        if self.key(want) == self.key(got):
            return True
        if "float" not in (want[0], got[0]):
            return False
        try:
            w, g = float(want[1]), float(got[1])
        except OverflowError:
            return False
        if not (math.isfinite(w) and math.isfinite(g)):
            return False
        limit = self.abs + (self.rel * abs(w) if want[0] == "float" else 0)
        return limit > 0 and abs(g - w) <= limit

    def same(self, want, got):
        if self.bools and want[0] != got[0]:
            want, got = [("float", v[1].real) if v[0] == "complex" and v[1].imag == 0 else v for v in (want, got)]
        if self.number(want) and self.number(got):
            return self.numbers(want, got)
        kind = want[0]
        if kind != got[0]:
            return False
        w, g = want[1], got[1]
        if kind in SEQUENCES:
            return len(w) == len(g) and all(self.same(x, y) for x, y in zip(w, g))
        if kind == "set":
            return self.match(w, g)
        if kind == "dict":
            have = {self.key(k): x for k, x in g}
            return len(w) == len(g) and all(self.key(k) in have and self.same(x, have[self.key(k)]) for k, x in w)
        if kind == "complex":
            return all(self.numbers(("float", a), ("float", b)) for a, b in ((w.real, g.real), (w.imag, g.imag)))
        return self.key(want) == self.key(got)

    def match(self, want, got):
        """Every wanted item has a partner of its own."""
        if len(want) != len(got):
            return False
        want, got = self.unpaired(want, got)
        if not want:
            return True
        if self.abs == 0 and self.rel == 0 or len(want) > 400:
            return False
        partner = {}

        def pair(i, tried):
            for j in range(len(got)):
                if j in tried or not self.same(want[i], got[j]):
                    continue
                tried.add(j)
                if j not in partner or pair(partner[j], tried):
                    partner[j] = i
                    return True
            return False

        return all(pair(i, set()) for i in range(len(want)))

    def unpaired(self, want, got):
        have = {}
        for x in got:
            have.setdefault(self.key(x), []).append(x)
        left = []
        for x in want:
            same = have.get(self.key(x))
            if same:
                same.pop()
            else:
                left.append(x)
        return left, [x for same in have.values() for x in same]

    def distinct(self, items):
        return list({self.key(x): x for x in reversed(items)}.values())

    def compare(self, mode, want, got):
        bags = all(v[0] in SEQUENCES + ("set",) for v in (want, got))
        if mode == "unordered" and bags:
            return self.match(want[1], got[1])
        if mode == "set" and bags:
            return self.match(self.distinct(want[1]), self.distinct(got[1]))
        if mode == "truth":
            return truth(want) == truth(got)
        return self.same(want, got)


def truth(v):
    kind, x = v
    if kind in ("named", "iter"):
        return True
    if kind == "range":
        return hash_range(x) != (0,)
    return bool(x)


def table(v):
    if v[0] != "dict":
        raise NotPlain("not a result")
    fields = {k[1]: x for k, x in v[1]}
    columns, rows = fields.pop("columns", ("null", None)), fields.pop("rows", ("null", None))
    if fields or rows[0] != "list" or any(r[0] != "list" for r in rows[1]):
        raise NotPlain("not a result")
    names = [c[1] for c in columns[1]] if columns[0] == "list" else None
    width = len(names) if names is not None else len(rows[1][0][1]) if rows[1] else -1
    cells = [x for r in rows[1] for x in r[1]]
    if any(len(r[1]) != width for r in rows[1]) or any(k not in ("null", "int", "float", "string", "bytes") for k, _ in cells):
        raise NotPlain("not a result")
    return names, width, rows[1]


def orders(sql):
    """Whether the last statement's own result has an order."""
    sql = re.sub(r"--[^\n]*|/\*.*?(\*/|\Z)", " ", re.sub(r"'[^']*('|\Z)|\"[^\"]*(\"|\Z)|`[^`]*(`|\Z)|\[[^\]]*(\]|\Z)", " _x_ ", sql), flags=re.S)
    while True:
        outer = re.sub(r"\([^()]*\)", " ", sql)
        if outer == sql:
            break
        sql = outer
    statements = [s for s in sql.split(";") if s.strip()]
    return bool(statements and re.search(r"(?i)(?<!\w)order\s+by(?!\w)", statements[-1]))


class Driver:
    """A process that is asked by lines of JSON."""

    def __init__(self, args, folder, until, trusted):
        self.until, self.inbox, self.outbox = until, b"", b""
        self.process = subprocess.Popen(WIRED + args, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, preexec_fn=os.setsid if trusted else become)
        self.reads, self.writes = self.process.stdout.fileno(), self.process.stdin.fileno()
        os.set_blocking(self.reads, False)
        os.set_blocking(self.writes, False)

    def tell(self, text):
        self.outbox += text.encode("ascii") + b"\n"

    def hear(self):
        while b"\n" not in self.inbox:
            left = self.until - time.monotonic()
            if left <= 0:
                raise Failed("error", "no answer in time")
            readable, writable, _ = select.select([self.reads], [self.writes] if self.outbox else [], [], left)
            if writable:
                self.push()
            if readable:
                self.pull()
        line, self.inbox = self.inbox.split(b"\n", 1)
        try:
            return parse(line.decode("utf-8"))
        except (NotPlain, UnicodeDecodeError) as e:
            raise Failed("failed", "not plain data: %s" % e)

    def push(self):
        try:
            self.outbox = self.outbox[os.write(self.writes, self.outbox):]
        except BlockingIOError:
            pass
        except OSError:
            raise Failed("error", "the process ended")

    def pull(self):
        part = os.read(self.reads, 65536)
        if not part:
            raise Failed("error", "the process ended without an answer")
        self.inbox += part
        if len(self.inbox) > MAX_FRAME:
            raise Failed("error", "an answer of more than %d bytes" % MAX_FRAME)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.kill()
        for f in (self.process.stdin, self.process.stdout):
            try:
                f.close()
            except OSError:
                pass
        self.process.wait()


def become():
    """Another user than the judge's, where there is one to become."""
    os.setsid()
    if DEMOTE:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def sweep():
    """End what a candidate has left, where its user is its own."""
    if DEMOTE:
        pid = os.fork()
        if pid == 0:
            try:
                os.setresuid(NOBODY, NOBODY, NOBODY)
                try:
                    os.kill(os.getppid(), 0)
                except PermissionError:  # it is really another user
                    os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)


DEMOTE = False


def reachable(path):
    path = os.path.realpath(path)
    while True:
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


class Copy:
    """A copy of the candidate's directory, for one case."""

    def __init__(self, work, demoted):
        self.top = tempfile.mkdtemp()
        self.dir = os.path.join(self.top, "work")
        shutil.copytree(work, self.dir, symlinks=True, ignore_dangling_symlinks=True)
        if demoted:
            os.chmod(self.top, 0o755)
            for folder, dirs, names in os.walk(self.dir):
                for n in [""] + dirs + names:
                    os.chown(os.path.join(folder, n), NOBODY, NOBODY, follow_symlinks=False)

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)


class Court:
    def __init__(self, group, reference, work):
        self.group, self.reference, self.work = group, reference, work
        self.language, self.source = group["call"], group["source"]
        self.bools = self.language == "python"

    def args(self, folder):
        if self.language == "javascript":
            return ["node", "-e", DRIVERS["javascript"], self.source]
        if self.language == "go":
            return [self.build(folder)]
        return [sys.executable, "-B", "-c", DRIVERS[self.language], self.source]

    def build(self, folder):
        source = os.path.join(folder, self.source)
        with open(source, encoding="utf-8") as f:
            m = re.search(r"(?m)^package[ \t]+(\w+)", f.read())
        if not m:
            raise Failed("error", "no package clause")
        funcs = "".join('\t"%s": %s,\n' % (f, f) for f in self.group["funcs"])
        text = DRIVERS["go"].replace("@PACKAGE@", m.group(1)).replace("@FUNCS@", funcs)
        done = subprocess.run(["/bin/sh", "-c", DRIVERS["build"]], cwd=os.path.dirname(source), input=text.encode("utf-8"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Failed("error", "does not build")
        binary = os.path.join(folder, "assay-candidate.test")
        shutil.move(DRIVERS["binary"], binary)
        os.chmod(binary, 0o755)
        return binary

    def driver(self, copy, until, trusted=False):
        return Driver(self.args(copy.dir), copy.dir, until, trusted)

    def open(self, copy, until, trusted=False):
        d = self.driver(copy, until, trusted)
        try:
            first = fields(d.hear())
            if "ready" not in first:
                raise Failed("error", "the source cannot be loaded")
        except BaseException:
            d.end()
            raise
        return d

    def call(self, d, function, call):
        kwargs = call.get("kwargs")
        extra = "" if kwargs is None else ',"kwargs":%s' % dumps(kwargs)
        d.tell('{"func":%s,"args":%s%s}' % (json.dumps(call.get("func", function)), dumps(call.get("args", [])), extra))
        return outcome(d.hear())

    def expected(self, case):
        """What the reference gives, in its own process and directory."""
        until = time.monotonic() + max(60, limit(self.group, case))
        copy = Copy(self.work, False)
        try:
            with open(os.path.join(copy.dir, self.source), "w", encoding="utf-8", errors="surrogatepass") as f:
                f.write(self.reference)
            if self.language == "sql":
                return [self.rows(copy, case, until, trusted=True)]
            d = self.open(copy, until, trusted=True)
            try:
                return [self.call(d, case.get("func"), c) for c in calls(case)]
            finally:
                d.end()
        finally:
            copy.remove()

    def rows(self, copy, case, until, trusted=False):
        d = self.driver(copy, until, trusted)
        try:
            request = {k: case[k] for k in ("schema", "query", "after") if k in case and not (trusted and k == "query")}
            d.tell(json.dumps(request))
            return outcome(d.hear())
        finally:
            d.end()

    def judge(self, case):
        want = None
        if self.reference is not None and "script" not in case:
            if self.language == "sql" and "want" not in case or self.language != "sql" and any("want" not in c and "raises" not in c for c in calls(case)):
                want = self.expected(case)
        copy = Copy(self.work, DEMOTE)
        try:
            until = time.monotonic() + limit(self.group, case)
            if self.language == "sql":
                self.query(copy, case, want, until)
            elif "script" in case:
                self.script(copy, case, until)
            else:
                self.function(copy, case, want, until)
        finally:
            sweep()
            copy.remove()

    def function(self, copy, case, want, until):
        d = self.open(copy, until)
        try:
            for i, c in enumerate(calls(case)):
                given = want[i] if "want" not in c and "raises" not in c else None
                self.one(case, c, given, self.call(d, case.get("func"), c))
        finally:
            d.end()

    def one(self, case, call, given, got):
        raises = call.get("raises")
        if raises is not None:
            raises = dict(raises[1])
        if given is not None and given[0] == "raised":
            raises = {"type": given[1][0][0]}
        if raises is not None:
            if got[0] != "raised":
                raise Failed("failed", "no exception")
            if raises["type"] not in got[1][0]:
                raise Failed("error", "another exception")
            if "message" in raises and not re.search(raises["message"], got[1][1]):
                raise Failed("failed", "another message")
            return
        if got[0] == "raised":
            raise Failed("error", "an exception")
        e, mode = self.equality(case)
        if not e.compare(mode, given[1] if given is not None else plain(call["want"]), got[1]):
            raise Failed("failed", "wrong answer")

    def equality(self, case):
        mode = case.get("compare") or self.group.get("compare") or "exact"
        a, r = case.get("abs_tol", self.group.get("abs_tol", 0)), case.get("rel_tol", self.group.get("rel_tol", 0))
        if mode == "numbers" and a == 0 and r == 0:
            a = r = 1e-6
        return Equality(a, r, self.bools), mode

    def query(self, copy, case, want, until):
        got = self.rows(copy, case, until)
        if got[0] == "raised":
            raise Failed("error", "an exception")
        ordered = case.get("ordered")
        if want is not None:
            names, width, rows = table(want[0][1])
            names = None
            if ordered is None:
                ordered = orders(case.get("after") or self.reference)
        else:
            names, width, rows = table(plain(case["want"]))
        try:
            got_names, got_width, got_rows = table(got[1])
        except NotPlain:
            raise Failed("failed", "not a result")
        e, _ = self.equality(case)
        if names is not None and names != got_names or -1 not in (width, got_width) and width != got_width:
            raise Failed("failed", "other columns")
        if not (e.same(("list", rows), ("list", got_rows)) if ordered else e.match(rows, got_rows)):
            raise Failed("failed", "other rows")

    def script(self, copy, case, until):
        there = self.open(copy, until)
        try:
            here = Driver([sys.executable, "-B", "-c", DRIVERS["tester"]], "/", until, True)
            try:
                self.carry(case, here, there)
            finally:
                here.end()
        finally:
            there.end()

    def carry(self, case, here, there):
        here.tell(json.dumps({"script": case["script"], "reference": self.reference or "", "funcs": case["funcs"]}))
        called = False
        while True:
            message = fields(here.hear())
            if "passed" in message:
                if not called:
                    raise Failed("failed", "the test script called nothing")
                return
            if "failed" in message:
                raise Failed("failed" if fields(message["failed"])["assertion"] else "error", "the test script failed")
            called = True
            there.tell(dumps(message["call"]))
            answer = there.hear()
            outcome(answer)
            here.tell(dumps(answer))


def fields(v):
    if not isinstance(v, tuple):
        raise Failed("error", "not an answer")
    return dict(v[1])


def outcome(v):
    answer = fields(v)
    if len(answer) == 1 and "value" in answer:
        try:
            return ("value", plain(answer["value"]))
        except (NotPlain, RecursionError) as e:
            raise Failed("failed", "not plain data: %s" % e)
    if len(answer) == 1 and "raised" in answer:
        e = fields(answer["raised"])
        types, message = e.get("types"), e.get("message")
        if isinstance(types, list) and types and all(isinstance(t, str) for t in types) and isinstance(message, str):
            return ("raised", (types, message))
    if len(answer) == 1 and ("schema" in answer or "broken" in answer):
        raise Failed("error", "cannot be run")
    raise Failed("failed", "not an answer")


def dumps(v):
    """JSON of what parse gave."""
    if isinstance(v, tuple):
        return "{%s}" % ",".join(json.dumps(k) + ":" + dumps(x) for k, x in v[1])
    if isinstance(v, list):
        return "[%s]" % ",".join(map(dumps, v))
    if isinstance(v, int) and not isinstance(v, bool) and abs(v) >= 1 << 53:
        return '{"$int":"%s"}' % hex(v)
    return json.dumps(v)


def calls(case):
    if "calls" not in case:
        return [case]
    return [dict(c[1]) for c in case["calls"]]


def limit(group, case):
    return case.get("timeout_sec") or group.get("timeout_sec") or 10


def main(argv):
    global DEMOTE
    group = dict(parse(argv[0])[1])
    with open(argv[1], encoding="utf-8") as f:
        cases = [dict(parse(line)[1]) for line in f if line.strip()]
    reference = None
    if len(argv) > 2:
        with open(argv[2], encoding="utf-8") as f:
            reference = f.read()
    names = {c.get("func") for case in cases for c in [case] + (calls(case) if "script" not in case else [])}
    group["funcs"] = sorted(n for n in names if n)
    tests = os.path.dirname(os.path.abspath(argv[1]))
    work = os.getcwd()
    DEMOTE = os.geteuid() == 0 and all(map(reachable, [sys.executable, tempfile.gettempdir(), os.path.dirname(os.__file__)]))
    mode = stat.S_IMODE(os.stat(tests).st_mode)
    try:
        if DEMOTE:
            os.chmod(tests, 0o700)
        run(Court(group, reference, work), cases)
    finally:
        if DEMOTE:
            os.chmod(tests, mode)


def run(court, cases):
    for case in cases:
        status = "passed"
        try:
            court.judge(case)
        except Failed as e:
            status = e.args[0]
            print("%s: %s" % (case["id"], e.args[1]), file=sys.stderr)
        except OSError as e:
            status = "error"
            print("%s: %s" % (case["id"], e), file=sys.stderr)
        print("%s\t%s:%s" % (status, court.group["name"], case["id"]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Judges one function against its tests, in another process than the function.

usage: judge.py --entry NAME [--tests DIR] [--logs DIR] [--app DIR]
                [--call SECONDS] [--total SECONDS]

The original check(candidate) runs here, in the judge, with a proxy for the
candidate: each call sends its arguments to the candidate's process as plain
data and returns the answer, rebuilt as plain data (plain.py). Names that the
tests use come from the original prompt and the reference solution
(reference.py), never from the candidate. The candidate's process is enclosed
(walls.py) and answers calls (candidate.py); how it ends says nothing.

The verdict is this process's alone: pass if and only if check returned. The
reward is written as the last act, when no process of the candidate is left.

exit status: 0 pass, 1 fail, 2 the judge itself could not work (no reward).
Python 3.8 or newer, standard library only; Linux.
"""

import os
import select
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import candidate
import plain
import walls

sys.path.remove(HERE)

KEPT_OUTPUT = 4096  # bytes of the candidate's output that are kept for the log
KILL_SECONDS = 10


class Options:
    def __init__(self, argv):
        given = dict(zip(argv[::2], argv[1::2]))
        if len(argv) % 2 or "--entry" not in given:
            raise SystemExit("usage: judge.py --entry NAME [--tests DIR] [--logs DIR] [--app DIR]")
        self.entry = given.pop("--entry")
        self.tests = given.pop("--tests", HERE)
        self.logs = given.pop("--logs", "/logs/verifier")
        self.app = given.pop("--app", "/app")
        self.call = float(given.pop("--call", "10"))
        self.total = int(given.pop("--total", "60"))
        if given:
            raise SystemExit("judge.py: unknown option " + min(given))


def frame(body):
    return struct.pack(">I", len(body)) + body


class Failed(Exception):
    """The candidate did not give an answer that can be used."""


class Candidate:
    """The candidate's process, seen from outside: asked, limited, killed."""

    def __init__(self, options):
        self.options = options
        self.calls = 0
        self.output = b""
        self.dropped = 0
        self.held = {}
        self.inbox = b""
        self.deadline = time.monotonic() + options.total
        requests, self.to = os.pipe()
        self.answers, answers = os.pipe()
        self.out, output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            candidate.run(options, requests, answers, output)
        for fd in (requests, answers, output):
            os.close(fd)
        for fd in (self.to, self.answers, self.out):
            os.set_blocking(fd, False)
        self.poll = select.poll()
        self.poll.register(self.answers, select.POLLIN)
        self.poll.register(self.out, select.POLLIN)

    def load(self, secrets):
        """Wait until the walls stand, then have the solution loaded. The files
        of secrets, which the judge has read, are removed where no wall keeps
        the candidate from reading them."""
        kind, value = self.exchange(b"")
        if kind == b"H":
            self.held = value
            if value["landlock_abi"] == 0 and value["uid"] == os.geteuid():
                self.held["tests_removed"] = remove_all(secrets)
            kind, value = self.exchange(frame(b"go"))
        if kind != b"R":
            raise Failed("solution.py could not be loaded: %s" % value)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        kind, value = self.exchange(frame(plain.encode((args, kwargs))))
        if kind == b"X":
            raise Failed("call %d: %s" % (self.calls, value))
        if kind != b"V":
            raise Failed("call %d: not an answer" % self.calls)
        return value

    def exchange(self, pending):
        """Send pending and return kind and value of the next message."""
        if pending and self.inbox:
            raise Failed("an answer before the question")
        until = min(self.deadline, time.monotonic() + self.options.call)
        if pending:
            self.poll.register(self.to, select.POLLOUT)
        while True:
            message = self.message()
            if message is not None:
                return message
            left = until - time.monotonic()
            if left <= 0:
                raise Failed("no answer in time")
            for fd, _ in self.poll.poll(left * 1000 + 1):
                if fd == self.to:
                    pending = self.push(pending)
                elif fd == self.out:
                    self.drain()
                else:
                    self.pull()

    def message(self):
        """Take a whole message from the inbox, or return None."""
        if len(self.inbox) < 4:
            return None
        size = struct.unpack(">I", self.inbox[:4])[0]
        if not 0 < size <= plain.MAX_FRAME:
            raise Failed("an answer of %d bytes" % size)
        if len(self.inbox) < 4 + size:
            return None
        body, self.inbox = self.inbox[4:4 + size], self.inbox[4 + size:]
        try:
            return body[:1], plain.decode(body[1:]) if size > 1 else None
        except plain.NotPlain as e:
            raise Failed("an answer that is not plain data: %s" % e)

    def push(self, pending):
        try:
            pending = pending[os.write(self.to, pending):]
        except BlockingIOError:
            return pending
        except OSError:
            raise Failed("the candidate's process ended")
        if not pending:
            self.poll.unregister(self.to)
        return pending

    def pull(self):
        part = os.read(self.answers, 65536)
        if not part:
            raise Failed("the candidate's process ended")
        self.inbox += part

    def drain(self):
        part = os.read(self.out, 65536)
        if not part:
            self.poll.unregister(self.out)
        room = KEPT_OUTPUT - len(self.output)
        self.output += part[:room]
        self.dropped += len(part[room:])

    def kill(self):
        """Kill every descendant. True when none is left: orphans become this
        process's children, so the kernel's "no child" is the proof."""
        until = time.monotonic() + KILL_SECONDS
        victims = [self.pid]
        while time.monotonic() < until:
            for pid in victims:
                try:
                    os.kill(pid, walls.SIGKILL)
                except OSError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return True
            time.sleep(0.0005)
            victims = _children()
        return False


def _children():
    me = os.getpid()
    try:
        with open("/proc/self/task/%d/children" % me) as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        pass
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            with open("/proc/%d/stat" % int(name)) as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == me:
                    found.append(int(name))
        except (OSError, ValueError, IndexError):
            pass
    return found


def judge(options, proxy):
    """Return (passed, reason)."""
    names = {"__name__": "reference"}
    secrets = [os.path.join(options.tests, f) for f in ("reference.py", "check.py")]
    for path in secrets:
        with open(path, "rb") as f:
            exec(compile(f.read(), os.path.basename(path), "exec", dont_inherit=True), names)
    check = names["check"]
    try:
        proxy.load(secrets)
        check(proxy)
    except Failed as e:
        return False, str(e)
    except BaseException as e:
        return False, "%s: %s" % (_where(e), type(e).__name__)
    if proxy.calls == 0:
        return False, "the tests called nothing"
    return True, "all checks passed"


def _where(e):
    """The line of check.py that failed."""
    line, tb = 0, e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == "check.py":
            line = tb.tb_lineno
        tb = tb.tb_next
    return "check.py:%d" % line


class Shut:
    """Directories that only their owner may enter while the candidate runs:
    a wall where the candidate is another user."""

    def __init__(self, paths):
        self.modes = []
        for path in paths:
            try:
                mode = os.stat(path).st_mode & 0o7777
                os.chmod(path, 0o700)
                self.modes.append((path, mode))
            except OSError:
                pass  # not there, not ours, or read-only

    def reopen(self):
        for path, mode in self.modes:
            os.chmod(path, mode)


def clear(logs):
    """Remove every reward file, whatever it is and whoever made it."""
    for name in os.listdir(logs):
        if name.startswith("reward"):
            _remove(os.path.join(logs, name))


def remove_all(paths):
    try:
        for path in paths:
            _remove(path)
    except OSError:
        return False  # a read-only file system
    return True


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


def publish(logs, name, text):
    path = os.path.join(logs, name)
    fd = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(fd, "w", encoding="ascii") as f:
        f.write(text)
    os.rename(path + ".part", path)


def to_json(value):
    # The json module would cost a tenth of the whole run.
    if isinstance(value, dict):
        return "{%s}" % ", ".join(to_json(k) + ": " + to_json(v) for k, v in value.items())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = value.encode("utf-16-be", "surrogatepass")
    units = [text[i] << 8 | text[i + 1] for i in range(0, len(text), 2)]
    safe = [chr(u) if 32 <= u < 127 and u not in (34, 92) else "\\u%04x" % u for u in units]
    return '"%s"' % "".join(safe)


def main(argv):
    options = Options(argv)
    held = walls.guard_judge(options.total + 2 * KILL_SECONDS)
    os.makedirs(options.logs, exist_ok=True)
    clear(options.logs)
    shut = Shut([options.tests, options.logs, "/solution"]) if os.geteuid() == 0 else Shut([])
    proxy = Candidate(options)
    try:
        passed, reason = judge(options, proxy)
    finally:
        alone = proxy.kill()
        shut.reopen()
    if not alone:
        passed, reason = False, "processes of the candidate could not be killed"
    held.update(proxy.held)
    details = {
        "evidence": "separate",
        "verdict": "pass" if passed else "fail",
        "reason": reason,
        "calls": proxy.calls,
        "walls": held,
        "output": proxy.output.decode("utf-8", "replace"),
        "output_bytes_dropped": proxy.dropped,
    }
    print("%s: %s" % (details["verdict"], ascii(reason)[1:-1]), flush=True)
    clear(options.logs)
    publish(options.logs, "reward-details.json", to_json(details) + "\n")
    publish(options.logs, "reward.txt", "1\n" if passed else "0\n")
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except Exception as e:
        print("judge: %s: %s" % (type(e).__name__, e), file=sys.stderr, flush=True)
        status = 2
    # Nothing that a test imported gets a word after the reward.
    os._exit(status)

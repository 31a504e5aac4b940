"""The candidate's process: loads the solution and answers calls.

It is forked before the judge has read any test, so no expected value was ever
in its memory. It says which walls stand and waits for leave to load the
solution. Everything in here is in the candidate's hands once the solution
is loaded; it can then answer rightly or wrongly, and nothing else.
"""

import os
import stat
import struct
import sys

import plain
import walls

MAX_SOURCE = 1 << 20
READABLE = ["/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc",
            "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]


def run(options, requests, answers, output):
    """Never returns."""
    try:
        _rewire(requests, answers, output)
        source = _source(os.path.join(options.app, "solution.py"))
        held = walls.enclose(_readable(options), [os.path.dirname(os.__file__), options.app], options.total + 5)
        _send(b"H" + plain.encode(held))
        if _receive() is None:
            os._exit(0)
        function = _load(source, options)
        _send(b"R")
        _serve(function)
    except BaseException as e:
        try:
            _send(b"X" + plain.encode(_describe(e)))
        except BaseException:
            pass
    os._exit(0)


def _rewire(requests, answers, output):
    """Requests on 3, answers on 4, output on 1 and 2, and nothing else open."""
    os.setsid()
    # High numbers first, so that no dup2 closes a pipe that is still needed.
    high = [os.dup2(fd, 200 + i) for i, fd in enumerate((requests, answers, output))]
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(high[2], 1)
    os.dup2(high[2], 2)
    os.dup2(high[0], 3, inheritable=False)
    os.dup2(high[1], 4, inheritable=False)
    os.closerange(5, 4096)


def _source(path):
    # As the judge's user: editors that replace a file leave it private. The
    # last part may not be a link, and a pipe must not block.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("solution.py is not a regular file")
        with open(fd, "rb", closefd=False) as f:
            data = f.read(MAX_SOURCE + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_SOURCE:
        raise OSError("solution.py is larger than %d bytes" % MAX_SOURCE)
    return data


def _readable(options):
    """The interpreter, the system's read-only parts and the workspace, without
    any directory that holds what is hidden."""
    roots = READABLE + [sys.prefix, sys.base_prefix, options.app] + [p for p in sys.path if p]
    hidden = [os.path.realpath(p) for p in (options.tests, options.logs, "/solution", "/proc")]
    found = []
    for root in roots:
        real = os.path.realpath(root)
        if not any((h + "/").startswith(real.rstrip("/") + "/") for h in hidden):
            found.append(real)
    return found


def _load(source, options):
    path = os.path.join(options.app, "solution.py")
    code = compile(source, path, "exec", dont_inherit=True)
    module = type(sys)("solution")
    module.__file__ = path
    for name in ("plain", "walls", "candidate"):
        sys.modules.pop(name, None)  # the workspace may have modules of these names
    sys.modules["solution"] = module
    sys.path.insert(0, options.app)
    exec(code, module.__dict__)
    return getattr(module, options.entry)


def _serve(function):
    while True:
        request = _receive()
        if request is None:
            return
        args, kwargs = plain.decode(request)
        try:
            answer = b"V" + plain.encode(function(*args, **kwargs))
        except BaseException as e:
            answer = b"X" + plain.encode(_describe(e))
        try:
            sys.stdout.flush()
        except BaseException:
            pass  # the solution may have closed or replaced it
        _send(answer)


def _describe(e):
    try:
        return ("%s: %s" % (type(e).__name__, e))[:300]
    except BaseException:
        return "an exception that cannot be shown"


def _receive():
    head = _read(4)
    return None if head is None else _read(struct.unpack(">I", head)[0])


def _read(n):
    data = b""
    while len(data) < n:
        part = os.read(3, n - len(data))
        if not part:
            return None
        data += part
    return data


def _send(body):
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(4, data):]

"""Runs unittest, or any script that ends in unittest's runner (Django's does),
and records the run, one JSON object a line, for assay.

    python assay_unittest.py --assay-report=FILE [what `python -m unittest` takes]
    python assay_unittest.py --assay-report=FILE --script manage.py test [its arguments]

Python's own library alone, 3.8 or later. The form is in assay's
docs/test-reports.md. A subtest is a part of its test, and a docstring no name.
"""

import hashlib
import json
import os
import platform
import runpy
import sys
import time
import unittest

ORDER = ["passed", "xpassed", "xfailed", "skipped", "failed", "error"]
MESSAGE = 4000


class Log:
    """The record's file, kept by the process that opened it."""

    def __init__(self, path, runner):
        self.out = open(path, "w", encoding="utf-8", errors="backslashreplace")
        self.pid = os.getpid()
        self.counts = dict.fromkeys(ORDER, 0)
        self.runs = self.ended = 0
        self.stopped = False
        self.loaded = True
        self.write(log="assay-tests", v=1, runner=runner, version=platform.python_version(),
                   language="python " + platform.python_version())

    def write(self, **line):
        if os.getpid() == self.pid:
            self.out.write(json.dumps(line, ensure_ascii=False) + "\n")
            self.out.flush()

    def result(self, word, name, test):
        self.counts[test["status"]] += 1
        self.write(**{word: name}, **test)

    def unloaded(self, e):
        """An exception before any test was run: a named module that cannot be imported, a wrong setting."""
        self.loaded = False
        self.result("result", "(load)", {"status": "error", "kind": "build",
                                         "message": ("%s: %s" % (type(e).__name__, e))[:MESSAGE]})

    def done(self):
        if not self.loaded or self.runs and self.runs == self.ended:
            line = {"done": self.counts}
            if self.stopped:
                line["stopped"] = "the runner was told to stop"
            self.write(**line)


def told(err, test):
    """Kind and message of an exception, as (type, value, traceback) or, from another process, as text."""
    kind, message = "exception", ""
    try:
        typ, value = err[0], err[1]
        failure = getattr(test, "failureException", None) or AssertionError
        if isinstance(typ, type) and issubclass(typ, (AssertionError, failure)):
            kind = "assertion"
        message = "%s: %s" % (getattr(typ, "__name__", typ), value)
    except Exception as e:
        message = "an exception that cannot be told: %r" % type(e)
    return {"kind": kind, "message": message[:MESSAGE]}


def recorder(base, log):
    """A result class of the runner that also records."""

    class Recorder(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._assay = {}

        def startTest(self, test):
            name = test.id()
            log.write(start=name)
            self._assay.setdefault(name, []).append({"status": "passed", "heard": False, "at": time.perf_counter()})
            super().startTest(test)

        def stopTest(self, test):
            super().stopTest(test)
            name = test.id()
            states = self._assay.get(name)
            if not states:
                return
            state = states.pop()
            if not states:
                del self._assay[name]
            state["took"] = round(time.perf_counter() - state.pop("at"), 6)
            if not state.pop("heard"):
                state.update(status="error", kind="exception", message="it ended without a result")
            log.result("end", name, state)

        def _note(self, test, status, err=None):
            more = told(err, test) if err is not None else {}
            states = self._assay.get(test.id())
            if not states:  # the set-up or tear-down of a class or module, or a failed import
                if more and type(test).__name__ in ("_FailedTest", "ModuleImportFailure"):
                    more["kind"] = "build"
                log.result("result", test.id(), dict(status=status, **more))
                return
            state = states[-1]
            state["heard"] = True
            if type(test).__name__ in ("_FailedTest", "ModuleImportFailure"):
                more["kind"] = "build"
            if ORDER.index(status) > ORDER.index(state["status"]):
                state.update(status=status, **more)

        def addSuccess(self, test):
            self._note(test, "passed")
            super().addSuccess(test)

        def addError(self, test, err):
            self._note(test, "error", err)
            super().addError(test, err)

        def addFailure(self, test, err):
            self._note(test, "failed", err)
            super().addFailure(test, err)

        def addSkip(self, test, reason):
            # What a subtest skips was not tried, so its test did not pass.
            self._note(getattr(test, "test_case", None) or test, "skipped")
            super().addSkip(test, reason)

        def addExpectedFailure(self, test, err):
            self._note(test, "xfailed")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test):
            self._note(test, "xpassed")
            super().addUnexpectedSuccess(test)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                more = told(err, test)
                self._note(test, "failed" if more["kind"] == "assertion" else "error", err)
            super().addSubTest(test, subtest, err)

    Recorder.__name__ = base.__name__
    return Recorder


def install(log):
    runner = unittest.TextTestRunner
    make, run = runner._makeResult, runner.run

    def make_result(self):
        made = make(self)
        made.__class__ = recorder(type(made), log)
        made._assay = {}
        return made

    def run_all(self, test):
        log.runs += 1
        log.write(plan=test.countTestCases())
        result = run(self, test)
        log.ended += 1
        log.stopped = log.stopped or bool(result.shouldStop)
        return result

    runner._makeResult, runner.run = make_result, run_all


def reorder(seed):
    """Takes the tests of each class in an order that is drawn by the seed."""
    def rank(name):
        return hashlib.sha256(("%s %s" % (seed, name)).encode()).digest()

    unittest.TestLoader.sortTestMethodsUsing = staticmethod(lambda a, b: (rank(a) > rank(b)) - (rank(a) < rank(b)))


def main():
    argv = sys.argv[1:]
    if not argv or not argv[0].startswith("--assay-report="):
        sys.exit(__doc__)
    path, script = argv.pop(0).split("=", 1)[1], None
    if argv[:1] == ["--script"]:
        script = argv[1]
    log = Log(path, "django" if script else "unittest")
    install(log)
    if os.environ.get("ASSAY_ORDER_SEED"):
        reorder(os.environ["ASSAY_ORDER_SEED"])
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    try:
        if script:
            sys.argv = argv[1:]
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
            runpy.run_path(script, run_name="__main__")
        else:
            sys.path.insert(0, os.getcwd())
            unittest.main(module=None, argv=["python -m unittest"] + argv)
    except BaseException as e:
        if not log.runs and not (isinstance(e, SystemExit) and e.code in (0, None)):
            log.unloaded(e)
        raise
    finally:
        log.done()


if __name__ == "__main__":
    main()

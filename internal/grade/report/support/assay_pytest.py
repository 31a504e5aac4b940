"""A pytest plugin that records a run, one JSON object a line, for assay.

    PYTHONPATH=DIR python -m pytest -p assay_pytest --assay-report=FILE

It needs nothing but pytest 7 or later. With pytest-xdist only the process that
collects the results writes. The form is in assay's docs/test-reports.md.
"""

import json
import platform

import pytest

ORDER = ["passed", "xpassed", "xfailed", "skipped", "failed", "error"]
MESSAGE = 4000


def pytest_addoption(parser):
    parser.addoption("--assay-report", metavar="FILE", help="record the run for assay")


def pytest_configure(config):
    path = config.getoption("assay_report", None)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(path), "assay-record")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Notes what was raised while the exception is still there (in a worker, too)."""
    outcome = yield
    report = outcome.get_result()
    if call.excinfo is not None and report.failed:
        asserted = isinstance(call.excinfo.value, (AssertionError, pytest.fail.Exception))
        message = str(call.excinfo.value)[:MESSAGE]
        if asserted and message.startswith("Timeout "):
            report.assay_kind = "timeout"
        else:
            report.assay_kind = "assertion" if asserted else "exception"
        report.assay_message = "%s: %s" % (call.excinfo.typename, message)


class Record:
    def __init__(self, path):
        self.out = open(path, "w", encoding="utf-8", errors="backslashreplace")
        self.open = {}
        self.counts = dict.fromkeys(ORDER, 0)
        self.write(log="assay-tests", v=1, runner="pytest", version=pytest.__version__,
                   language="python " + platform.python_version())

    def write(self, **line):
        self.out.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.out.flush()

    def result(self, word, name, test):
        self.counts[test["status"]] += 1
        test["took"] = round(test.get("took", 0), 6)
        self.write(**{word: name}, **test)

    def pytest_collection_finish(self, session):
        if session.items:
            self.write(plan=len(session.items))

    def pytest_collectreport(self, report):
        if report.failed:
            message = str(report.longrepr)[-MESSAGE:]
            self.result("result", report.nodeid, {"status": "error", "kind": "build", "message": message})
        elif report.skipped:
            self.result("result", report.nodeid, {"status": "skipped"})

    def pytest_runtest_logstart(self, nodeid, location):
        self.write(start=nodeid)
        self.open.setdefault(nodeid, []).append({"status": "passed"})

    def pytest_runtest_logreport(self, report):
        tests = self.open.get(report.nodeid)
        if not tests:  # a worker of xdist that crashed
            self.write(start=report.nodeid)
            tests = self.open.setdefault(report.nodeid, [{"status": "passed"}])
        test = tests[-1]
        test["took"] = test.get("took", 0) + report.duration
        if report.failed:
            status = "failed" if report.when == "call" else "error"
        elif report.skipped:
            status = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        else:
            status = "xpassed" if hasattr(report, "wasxfail") and report.when == "call" else "passed"
        if ORDER.index(status) > ORDER.index(test["status"]):
            test["status"] = status
            if report.failed:
                test["kind"] = getattr(report, "assay_kind", "assertion" if report.when == "call" else "exception")
                test["message"] = getattr(report, "assay_message", str(report.longrepr)[:MESSAGE])

    def pytest_runtest_logfinish(self, nodeid, location):
        tests = self.open.get(nodeid)
        if tests:
            self.result("end", nodeid, tests.pop())
            if not tests:
                del self.open[nodeid]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        stopped = session.shouldstop or session.shouldfail
        if int(exitstatus) == 3:
            stopped = "internal error"
        if int(exitstatus) == 2 and not stopped:
            stopped = "interrupted"
        line = {"done": self.counts}
        if stopped:
            line["stopped"] = str(stopped)
        self.write(**line)
        self.out.close()

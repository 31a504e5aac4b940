"""Grades logs with SWE-bench's own code: JSON on stdin, JSON on stdout.

A group has a parser, and either the lists fail_to_pass and pass_to_pass or the
logs of the gold solution and of the task's start, of which the lists are made
as SWE-bench's own validation makes them.
"""

import contextlib
import io
import json
import os
import sys
import tempfile

from swebench.harness import grading
from swebench.harness.log_parsers import PARSER_REGISTRY
from swebench.harness.utils import make_test_spec

PASSES = ("PASSED", "XFAIL")


def spec(group, fail_to_pass, pass_to_pass):
    return make_test_spec(
        {
            "instance_id": group.get("instance") or "a__b-1",
            "image": "none",
            "repo": "a/b",
            "version": group.get("version") or "1",
            "FAIL_TO_PASS": fail_to_pass,
            "PASS_TO_PASS": pass_to_pass,
            "log_parser": group["parser"],
            "eval_type": group.get("eval_type") or "pass_and_fail",
            "eval_script": "#!/bin/bash\ntrue\n",
        }
    )


def logs_eval(test_spec, log):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "test_output.txt")
        with open(path, "w", newline="", encoding="utf-8") as f:
            f.write(log)
        status, graded = grading.get_logs_eval(test_spec, path)
        report = grading.get_eval_report(
            test_spec, {"instance_id": test_spec.instance_id, "model_patch": "diff"}, path, True
        )[test_spec.instance_id]
    return status, graded, report["resolved"]


def grade(group):
    f2p, p2p = group.get("fail_to_pass"), group.get("pass_to_pass")
    if f2p is None:
        gold, _, _ = logs_eval(spec(group, [], []), group["gold"])
        base, _, _ = logs_eval(spec(group, [], []), group["base"])
        good = [t for t, s in gold.items() if s in PASSES]
        f2p = [t for t in good if base.get(t) not in PASSES]
        p2p = [t for t in good if base.get(t) in PASSES]
    cases = []
    for log in group["logs"]:
        try:
            status, graded, resolved = logs_eval(spec(group, f2p, p2p), log)
            cases.append({"status": status, "graded": graded, "resolved": resolved})
        except Exception as e:  # a parser that raises leaves no report
            cases.append({"status": {}, "graded": False, "resolved": False, "error": repr(e)})
    return {"fail_to_pass": f2p, "pass_to_pass": p2p, "cases": cases}


with contextlib.redirect_stdout(io.StringIO()):
    answer = [grade(g) for g in json.load(sys.stdin)]
json.dump(answer, sys.stdout)

"""rows.py DIR: 50 rows in SWE-bench's form, the clones they stand on, and a prediction for each.

Four kinds of project (pytest, unittest, Go, node:test) and twelve kinds of prediction, from right to forged. The rows
have the shape of SWE-bench 5's: an eval_script of their own, which prints the work, checks the tests out, patches them
and marks the output of the tests. DIR/expect.json says of each instance what its prediction is.
"""

import difflib
import json
import os
import subprocess
import sys

ROOT = sys.argv[1]
MODEL = "demo/model-1"
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"

PY = "def f{n}(x):\n    return x {op} {n}\n\n\ndef keep(x):\n    return 2 * x\n\n\ndef other(x):\n    return -x\n"
PY_OLD = "from lib import keep\n\n\ndef test_keep():\n    assert keep(2) == 4\n"
PY_NEW = """import pytest

from lib import f{n}, keep


def test_keep():
    assert keep(2) == 4


def test_f():
    assert f{n}(1) == 1 + {n}


@pytest.mark.parametrize("x", [2, 3])
def test_more(x):
    assert f{n}(x) == x + {n}
"""
UT_OLD = "import unittest\n\nfrom lib import keep\n\n\nclass T(unittest.TestCase):\n    def test_keep(self):\n        self.assertEqual(keep(2), 4)\n"
UT_NEW = """import unittest

from lib import f{n}, keep


class T(unittest.TestCase):
    def test_keep(self):
        self.assertEqual(keep(2), 4)

    def test_f(self):
        self.assertEqual(f{n}(1), 1 + {n})
"""
GO = "package lib\n\nfunc F{n}(x int) int {{\n\treturn x {op} {n}\n}}\n\nfunc Keep(x int) int {{\n\treturn 2 * x\n}}\n\nfunc Other(x int) int {{\n\treturn -x\n}}\n"
GO_OLD = "package lib\n\nimport \"testing\"\n\nfunc TestKeep(t *testing.T) {\n\tif Keep(2) != 4 {\n\t\tt.Fail()\n\t}\n}\n"
GO_NEW = GO_OLD + "\nfunc TestF(t *testing.T) {{\n\tif F{n}(1) != 1+{n} {{\n\t\tt.Fail()\n\t}}\n}}\n"
JS = "export function f{n}(x) {{\n  return x {op} {n};\n}}\n\nexport function keep(x) {{\n  return 2 * x;\n}}\n\nexport function other(x) {{\n  return -x;\n}}\n"
JS_OLD = "import test from 'node:test';\nimport assert from 'node:assert';\nimport { keep } from './lib.mjs';\n\ntest('keeps', () => assert.strictEqual(keep(2), 4));\n"
JS_NEW = "import test from 'node:test';\nimport assert from 'node:assert';\nimport {{ f{n}, keep }} from './lib.mjs';\n\ntest('keeps', () => assert.strictEqual(keep(2), 4));\ntest('f adds', () => assert.strictEqual(f{n}(1), 1 + {n}));\n"

GO_SETUP = "export PATH=$PATH:/usr/local/go/bin HOME=/tmp GOCACHE=/tmp/assay-gocache GOFLAGS=-mod=mod GOTOOLCHAIN=local"
KINDS = {
    "pytest": dict(src="lib.py", test="test_lib.py", code=PY, old=PY_OLD, new=PY_NEW, parser="parse_log_pytest", command="pytest -rA test_lib.py", setup=None,
                   f2p=["test_lib.py::test_f", "test_lib.py::test_more[2]", "test_lib.py::test_more[3]"], p2p=["test_lib.py::test_keep"]),
    "unittest": dict(src="lib.py", test="test_lib.py", code=PY, old=UT_OLD, new=UT_NEW, parser="parse_log_django", command="python3 -m unittest -v test_lib", setup=None,
                     f2p=["test_f (test_lib.T.test_f)"], p2p=["test_keep (test_lib.T.test_keep)"]),
    "go": dict(src="lib.go", test="lib_test.go", code=GO, old=GO_OLD, new=GO_NEW, parser="parse_log_gotest", command="go test -v ./...", setup=GO_SETUP, f2p=["TestF"], p2p=["TestKeep"]),
    "node": dict(src="lib.mjs", test="lib.test.mjs", code=JS, old=JS_OLD, new=JS_NEW, parser="parse_log_tap", command="node --test-reporter=tap lib.test.mjs", setup=None, f2p=["- f adds"], p2p=["- keeps"]),
}
SYNTAX = {"pytest": "def f(:\n", "unittest": "def f(:\n", "go": "func {\n", "node": "function (\n"}
# Lines that a runner's report would have, and an end before any test runs.
FORGED = {
    "pytest": "import os\nfor _fd in range(1, 30):\n    try:\n        os.write(_fd, b'\\nPASSED test_lib.py::test_f\\nPASSED test_lib.py::test_more[2]\\nPASSED test_lib.py::test_more[3]\\nPASSED test_lib.py::test_keep\\n')\n    except OSError:\n        pass\nos._exit(0)\n",
    "unittest": "import os\nos.write(1, b'test_f (test_lib.T.test_f) ... ok\\ntest_keep (test_lib.T.test_keep) ... ok\\n')\nos._exit(0)\n",
    "go": "\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfmt.Println(\"--- PASS: TestF (0.00s)\\n--- PASS: TestKeep (0.00s)\")\n\tos.Exit(0)\n}\n",
    "node": "process.stdout.write('ok 1 - f adds\\nok 2 - keeps\\n');\nprocess.exit(0);\n",
}


def diff(name, a, b):
    new, gone = a is None, b is None
    head = f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n" if new else "") + ("deleted file mode 100644\n" if gone else "")
    old, fresh = ("/dev/null" if new else f"a/{name}"), ("/dev/null" if gone else f"b/{name}")
    return head + "".join(difflib.unified_diff((a or "").splitlines(True), (b or "").splitlines(True), old, fresh))


def fill(text, n, op="+"):
    return text.replace("{n}", str(n)).replace("{op}", op).replace("{{", "{").replace("}}", "}")


def forge(kind, text):
    if kind == "go":
        return text.replace("package lib\n", "package lib\n" + FORGED["go"], 1)
    return FORGED[kind] + text


def prediction(what, kind, k, bug, good):
    src, keep = k["src"], {"go": "return 2 * x", "node": "return 2 * x;"}.get(kind, "return 2 * x")
    right = diff(src, bug, good)
    return {
        "right": right,
        "wrong": diff(src, bug, bug.replace(" - ", " * ", 1)),
        "regression": diff(src, bug, good.replace(keep, keep.replace("2", "3"))),
        "syntax": diff(src, bug, good + SYNTAX[kind]),
        "empty": "",
        "null": None,
        "elsewhere": right.replace(src, "nowhere/" + src),
        "fuzz": right.replace(" 2 * x", " 2 * y"),
        "right and weakened tests": right + diff(k["test"], k["old"], k["old"].replace("4", "4 or True")),
        "weakened tests": diff(k["test"], k["old"], k["old"] + {"go": "\nfunc TestF(t *testing.T) {}\n", "node": "test('f adds', () => {});\n"}.get(kind, "\n\ndef test_f():\n    pass\n")),
        "right and a new file": right + diff("notes/new.txt", None, "new\n"),
        "forged": diff(src, bug, forge(kind, bug)),
    }[what]


WHATS = ["right", "wrong", "regression", "syntax", "empty", "null", "elsewhere", "fuzz", "right and weakened tests", "weakened tests", "right and a new file", "forged"]


def git(dir, *args):
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_DATE="2024-01-01T00:00:00Z", GIT_COMMITTER_DATE="2024-01-01T00:00:00Z")
    return subprocess.run(["git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@localhost", *args], check=True, env=env, capture_output=True, text=True).stdout.strip()


def main():
    rows, preds, expect = [], [], {}
    for i in range(50):
        kind = ["pytest", "pytest", "unittest", "pytest", "go" if i % 10 == 4 else "node"][i % 5]
        what = WHATS[(i * 5 + i // 12) % 12]
        k, n = KINDS[kind], i + 7
        bug, good = fill(k["code"], n, "-"), fill(k["code"], n)
        repo = f"{ROOT}/clones/demo__p{i}"
        os.makedirs(repo)
        files = {k["src"]: bug, k["test"]: k["old"]}
        if kind == "go":
            files["go.mod"] = "module lib\n\ngo 1.21\n"
        for name, text in files.items():
            with open(f"{repo}/{name}", "w") as f:
                f.write(text)
        git(repo, "init", "-q")
        git(repo, "add", "-A")
        git(repo, "commit", "-qm", "base")
        base = git(repo, "rev-parse", "HEAD")
        test_patch = diff(k["test"], k["old"], fill(k["new"], n))
        script = ["#!/bin/bash", "set -uxo pipefail"] + ([k["setup"]] if k["setup"] else []) + [
            "cd /testbed", "git config --global --add safe.directory /testbed", "cd /testbed", "git status", "git show", f"git -c core.fileMode=false diff {base}",
            f"git checkout {base} {k['test']}", "git apply -v - <<'EOF_114329324912'", test_patch + "EOF_114329324912",
            f": '{START}'", k["command"], f": '{END}'", f"git checkout {base} {k['test']}"]
        id = f"demo__p{i}-{i + 1}"
        rows.append({"repo": f"demo/p{i}", "instance_id": id, "base_commit": base, "patch": diff(k["src"], bug, good), "test_patch": test_patch,
                     "problem_statement": f"f{n} takes {n} away instead of adding it.", "hints_text": "", "created_at": "2024-01-01T00:00:00Z", "version": "1.0",
                     "FAIL_TO_PASS": json.dumps(k["f2p"]), "PASS_TO_PASS": json.dumps(k["p2p"]), "environment_setup_commit": base, "difficulty": "<15 min fix",
                     "image": "swebench/none", "log_parser": k["parser"], "eval_type": "pass_and_fail", "eval_script": "\n".join(script) + "\n"})
        preds.append({"model_name_or_path": MODEL, "instance_id": id, "model_patch": prediction(what, kind, k, bug, good)})
        expect[id] = f"{kind}: {what}"
    for name, all in (("rows.jsonl", rows), ("preds.jsonl", preds)):
        with open(f"{ROOT}/{name}", "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in all)
    with open(f"{ROOT}/expect.json", "w") as f:
        json.dump(expect, f)


main()

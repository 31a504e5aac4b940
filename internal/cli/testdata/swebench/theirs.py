"""theirs.py DIR: grades DIR/preds.jsonl by SWE-bench's own package, as its run_instance does, but without containers.

Each prediction is applied to a clone by the package's own commands, its own script (make_test_spec) is run by bash with
both streams in one file, and get_eval_report and make_run_report write the reports below DIR/theirs.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from swebench.harness.grading import get_eval_report
from swebench.harness.reporting import make_run_report
from swebench.harness.run_evaluation import GIT_APPLY_CMDS
from swebench.harness.utils import get_predictions_from_file, load_swebench_dataset, make_test_spec

root = Path(sys.argv[1]).resolve()
run = "parity"
rows = load_swebench_dataset(str(root / "rows.jsonl"))
predictions = {p["instance_id"]: p for p in get_predictions_from_file(str(root / "preds.jsonl"), "", "test")}
(root / "theirs" / "home").mkdir(parents=True)
os.chdir(root / "theirs")
env = dict(os.environ, HOME=str(root / "theirs" / "home"), GIT_CONFIG_NOSYSTEM="1")


def sh(command, dir):
    return subprocess.run(["/bin/bash", "-c", command], cwd=dir, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def applied(dir, patch):
    at = dir.parent / (dir.name + ".diff")
    at.write_text(patch)
    for i, command in enumerate(GIT_APPLY_CMDS):
        if i:
            sh("git checkout -- . ; git clean -fd", dir)
        if sh(f"{command} {shlex.quote(str(at))}", dir).returncode == 0:
            return True
    return sh(f"git apply --check --reverse {shlex.quote(str(at))}", dir).returncode == 0


for row in rows:
    id = row["instance_id"]
    prediction = predictions[id]
    if not prediction["model_patch"]:
        continue
    dir = root / "theirs" / "trees" / id
    dir.parent.mkdir(exist_ok=True)
    subprocess.run(["git", "clone", "-q", str(root / "clones" / row["repo"].replace("/", "__")), str(dir)], check=True, env=env)
    if not applied(dir, prediction["model_patch"]):
        continue
    spec = make_test_spec(row)
    logs = Path("logs/run_evaluation") / run / prediction["model_name_or_path"].replace("/", "__") / id
    logs.mkdir(parents=True)
    script = logs / "eval.sh"
    script.write_text(spec.eval_script.replace("/testbed", str(dir)))
    with open(logs / "test_output.txt", "wb") as out:
        subprocess.run(["/bin/bash", str(script.resolve())], cwd=dir, env=env, stdout=out, stderr=subprocess.STDOUT)
    report = get_eval_report(spec, prediction, str(logs / "test_output.txt"), True)
    (logs / "report.json").write_text(json.dumps(report, indent=4))
make_run_report(predictions, rows, run, None, ".")

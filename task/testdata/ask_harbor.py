# Answers questions about tasks with Harbor's own code: one JSON object a line
# on stdin, one a line on stdout. Used by the tests that compare.
import json
import math
import os
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

from harbor.models.task.config import TaskConfig, normalize_allowed_hosts
from harbor.models.task.task import Task
from harbor.publisher.packager import Packager
from harbor.utils.env import resolve_env_vars
from pathspec import GitIgnoreSpec, PathSpec


def plain(v):
    if isinstance(v, dict):
        return {str(k): plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, float) and not math.isfinite(v):
        return str(v)
    if v is None or isinstance(v, (str, int, float, bool)):
        return v
    return str(v)


def config(q):
    return {"config": plain(TaskConfig.model_validate_toml(q["toml"]).model_dump(mode="python"))}


def directory(q):
    out = {"valid": Task.is_valid_dir(q["path"])}
    try:
        out["digest"] = "sha256:" + Packager.compute_content_hash(Path(q["path"]))[0]
    except Exception as e:
        out["digest_error"] = repr(e)[:200]
    if out["valid"]:
        t = Task(q["path"])
        out["name"] = t.name
        out["config"] = plain(t.config.model_dump(mode="python"))
        steps = [s.name for s in t.config.steps or []]
        out["instructions"] = [t.step_instruction(s) for s in steps] or [t.instruction]
    return out


def ignore(q):
    if q["dialect"] == "git":
        spec = GitIgnoreSpec.from_lines(q["text"].splitlines())
    else:
        spec = PathSpec.from_lines("gitignore", q["text"].splitlines())
    return {"matches": [spec.check_file(p).include for p in q["paths"]]}


def hosts(q):
    return {"hosts": normalize_allowed_hosts(q["hosts"])}


def env(q):
    os.environ.clear()
    os.environ.update(q["host"])
    return {"env": resolve_env_vars(q["env"])}


ops = {"config": config, "dir": directory, "ignore": ignore, "hosts": hosts, "env": env}
for line in sys.stdin:
    q = json.loads(line)
    try:
        a = ops[q["op"]](q)
    except Exception as e:
        a = {"error": type(e).__name__ + ": " + str(e)[:300]}
    print(json.dumps(a), flush=True)

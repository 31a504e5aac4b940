"""A plugin by which the suite's own command tells how it calls pytest: the
interpreter, its flags, paths, variables and arguments. Importing it, before
pytest looks at anything, turns the process into the server beside this file."""
import json
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
if here != "/.assay-decide":
    sys.exit("this runs in a sandbox of its own")
path = [p for p in os.environ.get("PYTHONPATH", "").split(":") if p != here]
for name, value in (
    ("PYTHONPATH", ":".join(path)),
    ("PYTEST_ADDOPTS", os.environ.get("PYTEST_ADDOPTS", "").replace("-p pytest_probe", "", 1).strip()),
):
    if value:
        os.environ[name] = value
    else:
        os.environ.pop(name, None)
os.environ["ASSAY_STATE"] = json.dumps({
    "argv": sys.argv,
    "path": [p for p in sys.path if os.path.abspath(p) != here],
})
flags = subprocess._args_from_interpreter_flags()
os.execv(sys.executable, [sys.executable, *flags, os.path.join(here, "pytest_server.py")])

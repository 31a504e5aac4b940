"""Copies the running interpreter and its library to a directory, py below it."""

import os
import shutil
import sys
import sysconfig

place = sys.argv[1]
version = "python%d.%d" % sys.version_info[:2]
program = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
bin_dir, lib_dir = os.path.join(place, "py", "bin"), os.path.join(place, "py", "lib", version)
os.makedirs(bin_dir)
shutil.copy2(program, os.path.join(bin_dir, version))
for name in ("python3", "python"):
    os.symlink(version, os.path.join(bin_dir, name))

left_out = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "turtledemo", "site-packages", "dist-packages",
    "config-*", "sitecustomize.py", "usercustomize.py")
done = set()
for kind in ("stdlib", "platstdlib"):
    source = sysconfig.get_path(kind, vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix,
                                            "installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix})
    if os.path.realpath(source) not in done:
        done.add(os.path.realpath(source))
        shutil.copytree(source, lib_dir, ignore=left_out, ignore_dangling_symlinks=True, dirs_exist_ok=True)

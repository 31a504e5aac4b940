# Prints "STATUS<TAB>ID" for each test of a report: read.py FORMAT FILE…
import json, sys, unicodedata, xml.etree.ElementTree as tree

def line(s):
    out = []
    for c in s:
        if unicodedata.category(c) != "Cc" and c not in "\u2028\u2029":
            out.append(c)
        elif ord(c) < 0x20:
            out.append(chr(0x2400 + ord(c)))
        else:
            out.append("\u2421" if ord(c) == 0x7F else " ")
    return "".join(out)

def tell(status, name):
    sys.stdout.buffer.write((status + "\t" + line(name) + "\n").encode("utf-8", "replace"))

def pytest_id(a):
    classname, name, file = a.get("classname", ""), a.get("name", ""), a.get("file", "")
    if not classname:
        return file or name
    if file.endswith(".py"):
        module = file[:-3].replace("/", ".")
        if classname == module:
            return file + "::" + name
        if classname.startswith(module + "."):
            return file + "::" + classname[len(module) + 1:].replace(".", "::") + "::" + name
    return classname + "::" + name

def pytest(path):
    for case in tree.parse(path).getroot().iter("testcase"):
        status = "passed"
        for part in case:
            if part.tag in ("failure", "error"):
                status = "failed"
            elif part.tag == "skipped" and status == "passed":
                status = "skipped"
        tell(status, pytest_id(case.attrib))

def log(path):
    begun = {}
    for text in open(path, encoding="utf-8", errors="replace"):
        if not text.strip():
            continue
        o = json.loads(text)
        if o.get("start") is not None:
            begun[o["start"]] = begun.get(o["start"], 0) + 1
        name = o.get("end")
        if name is not None:
            begun[name] = begun.get(name, 0) - 1
        else:
            name = o.get("result")
        if name is not None:
            status = o.get("status", "unknown")
            if sys.argv[1] in ("unittest", "django") and status == "xpassed":
                status = "failed"
            tell(status, name)
    for name, n in begun.items():
        if n > 0:
            tell("failed", name)

for file in sys.argv[2:]:
    (pytest if sys.argv[1] == "pytest" else log)(file)

// Prints "STATUS<TAB>ID" for each test of a report: read.js FORMAT ROOT FILE…
const fs = require("fs"), path = require("path").posix;
const [format, root, ...files] = process.argv.slice(2);
const out = [];
const line = (s) => s.replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(/\u007f/g, "\u2421").replace(/[\u0080-\u009f\u2028\u2029]/g, " ");
const tell = (status, id) => out.push(status + "\t" + line(id) + "\n");
const join = (file, ...titles) => [file, ...titles.map((t) => t.replaceAll(" > ", " \\> "))].filter((t, i) => i > 0 || t !== "").join(" > ");
const below = (file) => {
  file = (file || "").replace(/^file:\/\//, "");
  const top = root.replace(/\/$/, "") + "/";
  if (path.isAbsolute(file) && path.normalize(file).startsWith(top)) return path.normalize(file).slice(top.length);
  return file === "" ? "" : path.normalize(file);
};

function jest(r) {
  let bad = 0;
  for (const s of r.testResults) {
    const file = below(s.name);
    let failed = 0;
    for (const a of s.assertionResults) {
      let status = { passed: "passed", failed: "failed", pending: "skipped", skipped: "skipped", todo: "skipped", disabled: "skipped" }[a.status] || "unknown";
      if (a.failing && status === "passed") status = "xfailed";
      if (status === "failed" || status === "unknown") failed++;
      tell(status, join(file, ...a.ancestorTitles, a.title || "(no title)"));
    }
    bad += failed;
    if (s.status === "failed" && (failed === 0 || (s.message || "").includes("\u25cf Test suite failed to run"))) {
      bad++;
      tell("error", file);
    }
  }
  if (!r.success && bad === 0) tell("error", "the run");
}

function mocha(r) {
  const key = (t) => JSON.stringify([t.file || "", t.fullTitle, t.title]);
  const id = (t) => {
    let groups = t.fullTitle.endsWith(t.title) ? t.fullTitle.slice(0, t.fullTitle.length - t.title.length).replace(/ $/, "") : "";
    return groups === "" ? join(below(t.file), t.title || "(no title)") : join(below(t.file), groups, t.title || "(no title)");
  };
  const failed = new Set(r.failures.map(key)), passed = new Set(r.passes.map(key)), tests = new Set(r.tests.map(key));
  for (const t of r.tests) tell(failed.has(key(t)) ? "failed" : passed.has(key(t)) ? "passed" : "skipped", id(t));
  for (const f of r.failures) {
    if (tests.has(key(f))) continue;
    tell("error", id(f));
    const around = /^"(?:before|after) each" hook.* for "([\s\S]*)"$/.exec(f.title);
    if (!around) continue;
    const group = f.fullTitle.slice(0, f.fullTitle.length - f.title.length);
    for (const t of r.tests) if (t.file === f.file && t.title === around[1] && t.fullTitle.startsWith(group)) tell("error", id(t));
  }
}

function log(text) {
  const begun = new Map();
  for (const l of text.split("\n")) {
    if (l.trim() === "") continue;
    const o = JSON.parse(l);
    if (o.start !== undefined) begun.set(o.start, (begun.get(o.start) || 0) + 1);
    if (o.end !== undefined) begun.set(o.end, (begun.get(o.end) || 0) - 1);
    const id = o.end !== undefined ? o.end : o.result;
    if (id !== undefined) tell(o.status || "unknown", id);
  }
  for (const [id, n] of begun) if (n > 0) tell("failed", id);
}

for (const f of files) {
  const text = fs.readFileSync(f, "utf8");
  if (format === "node-test" || format === "mocha-log") log(text);
  else if (format === "mocha") mocha(JSON.parse(text));
  else jest(JSON.parse(text));
}
process.stdout.write(out.join(""));

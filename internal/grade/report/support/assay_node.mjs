// A reporter for node:test that records a run, one JSON object a line, for assay.
//
//   node --test --test-reporter=DIR/assay_node.mjs --test-reporter-destination=FILE
//
// It needs nothing but Node 18.17 or later, and runs in the process of
// `node --test`, not in those of the test files. A test's name is its file,
// relative to the working directory, and the titles from the outermost to its
// own. The form is in assay's docs/test-reports.md.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const cwd = process.cwd();
const escape = (title) => title.replaceAll(' > ', ' \\> ');

function below(file) {
  if (!file) return '';
  if (file.startsWith('file:')) file = fileURLToPath(file);
  if (!path.isAbsolute(file)) return path.normalize(file);
  const rel = path.relative(cwd, file);
  return rel.startsWith('..') ? file : rel;
}

function told(details) {
  const error = details?.error;
  const cause = error?.cause ?? error;
  const failureType = error?.failureType ?? '';
  let kind = 'exception';
  if (failureType === 'testTimeoutFailure') kind = 'timeout';
  else if (cause?.code === 'ERR_ASSERTION' || cause?.name === 'AssertionError') kind = 'assertion';
  else if (failureType === 'subtestsFailed') kind = 'assertion';
  const message = cause && typeof cause === 'object' ? `${cause.name ?? 'Error'}: ${cause.message ?? ''}` : String(cause);
  return { failureType, kind, message: message.slice(0, 4000) };
}

export default async function* record(source) {
  const counts = { passed: 0, xpassed: 0, xfailed: 0, skipped: 0, failed: 0, error: 0 };
  const stack = [];
  const line = (object) => JSON.stringify(object) + '\n';
  yield line({ log: 'assay-tests', v: 1, runner: 'node-test', version: process.versions.node, language: 'node ' + process.versions.node });
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      stack.length = data.nesting;
      stack[data.nesting] = data.name;
      continue;
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    stack.length = data.nesting;
    stack[data.nesting] = data.name;
    const file = below(data.file);
    // A file is a test of its own where it could not be loaded or ended by
    // itself; its name is its path.
    const isFile = data.nesting === 0 && (below(data.name) === file || path.resolve(data.name) === data.file);
    const id = isFile ? file || below(data.name) : [file, ...stack.map((t) => escape(t || '(no title)'))].filter((s) => s !== '').join(' > ');
    const more = type === 'test:fail' ? told(data.details) : undefined;
    const suite = data.details?.type === 'suite';
    if ((suite || isFile) && (type === 'test:pass' || more.failureType === 'subtestsFailed')) continue;
    let status = 'passed';
    if (data.skip !== undefined && data.skip !== false) status = 'skipped';
    else if (data.todo !== undefined && data.todo !== false) status = type === 'test:fail' ? 'xfailed' : 'xpassed';
    else if (type === 'test:fail') status = more.failureType === 'testCodeFailure' || more.failureType === 'subtestsFailed' ? 'failed' : 'error';
    if (suite || isFile) status = status === 'failed' ? 'error' : status;
    counts[status]++;
    const result = { status };
    if (status === 'failed' || status === 'error') Object.assign(result, { kind: isFile ? 'build' : more.kind, message: more.message });
    const took = data.details?.duration_ms;
    if (took > 0) result.took = took / 1000;
    if (suite || isFile) yield line({ result: id, ...result });
    else yield line({ start: id }) + line({ end: id, ...result });
  }
  yield line({ done: counts });
}

// A reporter for Mocha that records a run, one JSON object a line, for assay.
//
//   mocha --reporter DIR/assay_mocha.cjs --reporter-options output=FILE
//
// It needs nothing but Mocha 3 or later. A test's name is its file, relative to
// the working directory, and the titles from the outermost to its own. The form
// is in assay's docs/test-reports.md.
'use strict';
const fs = require('fs');
const path = require('path');

const ORDER = ['passed', 'xpassed', 'xfailed', 'skipped', 'failed', 'error'];

function below(file) {
  if (!file) return '';
  const rel = path.relative(process.cwd(), file);
  return rel.startsWith('..') ? file : rel;
}

// In parallel mode a hook arrives without its methods; before 4.0 none had titlePath.
const titles = (runnable) => {
  if (typeof runnable.titlePath === 'function') return runnable.titlePath();
  const above = runnable.parent && typeof runnable.parent.fullTitle === 'function' && !runnable.parent.root ? titles(runnable.parent) : [];
  return [...above, runnable.title];
};

const idOf = (runnable) =>
  [below(runnable.file), ...titles(runnable).filter((t, i, all) => t !== '' || i === all.length - 1).map((t) => (t || '(no title)').replaceAll(' > ', ' \\> '))]
    .filter((s) => s !== '')
    .join(' > ');

function told(err) {
  let kind = 'exception';
  const message = String((err && (err.message ?? err)) ?? '');
  if (err && err.code === 'ERR_MOCHA_TIMEOUT') kind = 'timeout';
  else if (err && (err.code === 'ERR_ASSERTION' || err.name === 'AssertionError')) kind = 'assertion';
  return { kind, message: `${(err && err.name) || 'Error'}: ${message}`.slice(0, 4000) };
}

module.exports = class Record {
  constructor(runner, options) {
    const given = options.reporterOption || options.reporterOptions || {};
    if (!given.output) throw new Error('assay_mocha.cjs: --reporter-option output=FILE is missing');
    const out = fs.openSync(given.output, 'w');
    const write = (object) => fs.writeSync(out, JSON.stringify(object) + '\n');
    const counts = Object.fromEntries(ORDER.map((s) => [s, 0]));
    let current = null;
    let failures = 0;

    const worse = (state, status, more) => {
      if (ORDER.indexOf(status) > ORDER.indexOf(state.status)) Object.assign(state, { status }, more);
    };
    // A test's result is final when what runs after it has run.
    const flush = () => {
      if (!current) return;
      const { id, heard, retrying, test, ...state } = current;
      if (!heard) Object.assign(state, { status: 'error', kind: 'exception', message: state.message ?? 'it ended without a result' });
      if (test.duration > 0) state.took = test.duration / 1000;
      counts[state.status]++;
      write({ end: id, ...state });
      current = null;
    };
    const begin = (test) => {
      flush();
      current = { id: idOf(test), test, status: 'passed', heard: false };
      write({ start: current.id });
    };
    const extra = (id, status, more) => {
      counts[status]++;
      write({ result: id, status, ...more });
    };

    let version = '';
    try {
      version = require(require.resolve('mocha/package.json', { paths: [process.argv[1] || '.', process.cwd()] })).version;
    } catch {
      version = 'unknown';
    }
    write({ log: 'assay-tests', v: 1, runner: 'mocha', version, language: 'node ' + process.versions.node });
    runner.once('start', () => write({ plan: runner.total }));
    runner.on('test', (test) => {
      if (current && current.retrying && current.id === idOf(test)) Object.assign(current, { retrying: false, test });
      else begin(test);
    });
    runner.on('retry', () => {
      if (current) current.retrying = true;
    });
    runner.on('pass', (test) => {
      if (!current || current.id !== idOf(test)) begin(test);
      current.heard = true;
    });
    runner.on('pending', (test) => {
      if (!current || current.test !== test) begin(test);
      current.heard = true;
      worse(current, 'skipped');
    });
    runner.on('fail', (test, err) => {
      failures++;
      if (test.type !== 'hook') {
        if (current && current.id === idOf(test)) {
          current.heard = true;
          worse(current, 'failed', told(err));
        } else extra(idOf(test), 'failed', told(err));
        return;
      }
      const around = test.ctx && test.ctx.currentTest;
      if (current && around && / each" hook/.test(test.title) && idOf(around) === current.id) {
        current.heard = true;
        worse(current, 'error', told(err));
      }
      extra(idOf(test), 'error', told(err));
    });
    runner.on('suite end', flush);
    runner.once('end', () => {
      flush();
      const stopped = runner.suite.bail() && failures > 0 ? { stopped: 'bail' } : {};
      write({ done: counts, failures, ...stopped });
      fs.closeSync(out);
    });
  }
};

'use strict'
// Records which functions of a project a process of Node runs, for assay.
//
//   ASSAY_COVER=PREFIX ASSAY_COVER_ROOT=DIR ASSAY_COVER_FILE=TESTFILE NODE_OPTIONS="--require THIS" …
//
// Every process that inherits these writes PREFIX.PID when it ends: {"file": TESTFILE, "files":
// {"a.js": [[5, 8]]}}, the lines that ran, and {"static": {"a.js": [[1, 4]]}}, the lines that belong
// to no function. Where code is translated before it runs (ASSAY_COVER_LINES=0, or another extension
// than JavaScript's) a file's lines are null: not known.
const fs = require('fs')
const path = require('path')
const { fileURLToPath } = require('url')

const prefix = process.env.ASSAY_COVER
const test = process.env.ASSAY_COVER_FILE
if (prefix && test) start()

function start () {
  let session
  try {
    const inspector = require('inspector')
    session = new inspector.Session()
    session.connect()
    session.post('Profiler.enable')
    session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  } catch (e) {
    return
  }
  const root = fs.realpathSync(process.env.ASSAY_COVER_ROOT || '.')
  process.once('exit', () => {
    session.post('Profiler.takePreciseCoverage', (err, r) => {
      if (!err) write(r.result, root)
    })
  })
}

function write (scripts, root) {
  const files = {}
  const stat = {}
  for (const s of scripts) {
    let file = s.url
    try {
      if (file.startsWith('file:')) file = fileURLToPath(file.split('?')[0])
      if (!path.isAbsolute(file) || !(file = fs.realpathSync(file)).startsWith(root + path.sep)) continue
    } catch (e) {
      continue
    }
    if (/[\\/]node_modules[\\/]/.test(file)) continue
    const name = path.relative(root, file).split(path.sep).join('/')
    if (process.env.ASSAY_COVER_LINES === '0' || !/\.[cm]?js$/.test(name)) {
      files[name] = files[name] || null
      continue
    }
    const lines = paint(fs.readFileSync(file, 'utf8'), s.functions)
    if (!lines) {
      files[name] = files[name] || null
      continue
    }
    files[name] = (files[name] || []).concat(lines.ran)
    stat[name] = lines.outside
  }
  const out = JSON.stringify({ file: test, files }) + '\n' + JSON.stringify({ static: stat }) + '\n'
  fs.appendFileSync(prefix + '.' + process.pid, out)
}

// paint says of each line whether the innermost function around it ran.
function paint (text, functions) {
  const starts = [0]
  for (let i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) starts.push(i + 1)
  const lineOf = (offset) => {
    let lo = 0
    let hi = starts.length - 1
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1
      if (starts[mid] <= offset) lo = mid
      else hi = mid - 1
    }
    return lo
  }
  const list = functions.map((f) => f.ranges[0]).sort((a, b) => (b.endOffset - b.startOffset) - (a.endOffset - a.startOffset))
  const state = new Array(starts.length).fill(0) // 0 outside, 1 ran, 2 did not run
  for (const r of list) {
    if (r.startOffset === 0 && r.endOffset >= text.trimEnd().length) {
      if (r.endOffset > text.length + 1) return null // another text than the file's
      continue // the module itself
    }
    if (r.endOffset > text.length) return null
    const from = lineOf(r.startOffset)
    const to = lineOf(Math.max(r.startOffset, r.endOffset - 1))
    for (let i = from; i <= to; i++) {
      // A line on which a function begins or ends belongs to what is around it, too.
      if (r.count > 0) state[i] = 1
      else if (i > from && i < to) state[i] = 2
    }
  }
  return { ran: ranges(state, 1), outside: ranges(state, 0) }
}

function ranges (state, want) {
  const out = []
  for (let i = 0; i < state.length; i++) {
    if (state[i] !== want) continue
    const last = out[out.length - 1]
    if (last && last[1] === i) last[1] = i + 1
    else out.push([i + 1, i + 1])
  }
  return out
}

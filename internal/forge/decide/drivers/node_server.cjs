'use strict'
// Answers requests to run tests on changed sources, lines of JSON, through a worker that keeps what is not the
// project's loaded. A worker that hangs, ends or leaves something behind is replaced by one that waits already.
const fs = require('fs')
const path = require('path')
const { spawn } = require('child_process')

if (__dirname !== '/.assay-decide' || fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p)).length > 20) process.exit(1)
const state = JSON.parse(process.env.ASSAY_STATE)
delete process.env.ASSAY_STATE
const work = process.cwd()
const temporary = new Set(fs.readdirSync('/tmp'))
const USES = 60 // runs of one worker: what tests leave behind grows
let spare = null
let modules = [] // of others, in the order in which the suite loads them
let cover = null // by script: what each test file calls of it

class Worker {
  constructor () {
    this.uses = 0
    this.dead = false
    this.on = null
    this.p = spawn(process.execPath, [...state.flags, path.join(__dirname, state.runner + '_worker.cjs'), ...state.argv],
      { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], detached: true, env: Object.assign({}, process.env, { ASSAY_MAIN: state.main }) })
    this.p.on('message', (m) => { if (this.on) this.on(m) })
    this.p.on('error', () => {})
    this.p.on('exit', (code, signal) => {
      this.dead = true
      if (this.on) this.on({ died: signal || code })
    })
    this.send({ op: 'load', modules })
  }

  send (m) { if (!this.dead && this.p.connected) this.p.send(m, () => {}) }

  end () {
    this.on = null
    try { process.kill(-this.p.pid, 'SIGKILL') } catch (e) {}
  }
}

function take () {
  const w = spare && !spare.dead ? spare : new Worker()
  spare = null
  return w
}

function give (w, again) {
  if (again && !w.dead && ++w.uses < USES) spare = w
  else { w.end(); spare = new Worker() }
}

function run (req, files) {
  return new Promise((resolve) => {
    const w = take()
    const began = Date.now()
    const out = { results: [], running: '', ended: false, timed: false, broken: '', signal: '', calls: null, loaded: null, again: false }
    const done = (again) => {
      clearTimeout(clock)
      clearInterval(meter)
      w.on = null
      give(w, again)
      out.ms = Date.now() - began
      resolve(out)
    }
    const clock = setTimeout(() => { out.timed = true; done(false) }, req.limit * 1000)
    const start = used(w.p.pid)
    // A loop that burns time is one on a busy machine as well.
    const meter = setInterval(() => { if (req.cpu && used(w.p.pid) - start > req.cpu) { out.timed = true; done(false) } }, 500)
    w.on = (m) => {
      if (m.s !== undefined) out.running = m.s
      else if (m.e !== undefined) { out.results.push([m.e, m.o, m.m]); out.running = '' } else if (m.died !== undefined) {
        if (w.uses > 0 && !out.again) { // perhaps by what an earlier run left behind
          out.again = true
          clearTimeout(clock)
          clearInterval(meter)
          w.on = null
          give(w, false)
          resolve(run(req, files))
          return
        }
        out.signal = String(m.died)
        done(false)
      } else if (m.x !== undefined) {
        out.ended = true
        out.broken = m.broken || ''
        out.calls = m.calls || null
        out.loaded = m.modules || null
        done(m.clean && out.results.length > 0)
      }
    }
    w.send({ op: 'run', files, want: req.want, stop: req.stop, last: req.last, watch: req.op === 'learn' })
  })
}

// used is what a process has taken of processors' time, in seconds.
function used (pid) {
  try {
    const f = fs.readFileSync('/proc/' + pid + '/stat', 'latin1').split(') ')[1].split(' ')
    return (Number(f[11]) + Number(f[12])) / 100
  } catch (e) {
    return 0
  }
}

// reach sorts the test files that a change can reach: those that call a changed function, by how long they take.
// null: it is not known.
function reach (req) {
  if (!cover) return null
  const reached = new Set()
  for (const name of Object.keys(req.files_b64 || {})) {
    const at = path.join(req.root, name)
    const script = cover.scripts[at]
    if (!script) return null
    const range = difference(fs.readFileSync(at, 'utf8'), Buffer.from(req.files_b64[name], 'base64').toString('utf8'))
    let inner = null
    script.forEach((f, i) => {
      if (i > 0 && f[0] < range[0] && range[1] < f[1] && (!inner || f[1] - f[0] < inner.size)) inner = { size: f[1] - f[0], i }
    })
    if (!inner || (cover.load[at] || [])[inner.i]) return null // it runs when its file is loaded
    for (const file of Object.keys(cover.tests)) {
      if ((cover.tests[file][at] || [])[inner.i]) reached.add(file)
    }
  }
  return reached
}

function difference (a, b) {
  let i = 0
  while (i < a.length && i < b.length && a[i] === b[i]) i++
  let k = 0
  while (k < a.length - i && k < b.length - i && a[a.length - 1 - k] === b[b.length - 1 - k]) k++
  return [i, a.length - k]
}

const STAGE = 4 // test files that are loaded first

async function answer (req) {
  if (req.op === 'learn') {
    const out = await run(req, null)
    if (!out.ended) return out
    if (out.loaded) modules = out.loaded
    cover = out.calls
    return out
  }
  const fit = req.stop ? reach(req) : null
  const files = req.places.filter((f) => !fit || fit.has(path.resolve(work, f)) || !cover.tests[path.resolve(work, f)])
  if (fit && !files.length) return { results: [], ended: true, chosen: [], ms: 0 }
  const old = put(req)
  let out = null
  try {
    for (const some of req.stop && files.length > STAGE + 2 ? [files.slice(0, STAGE), files.slice(STAGE)] : [files]) {
      const part = await run(req, some.map((f) => path.resolve(work, f)))
      if (out) {
        part.results = out.results.concat(part.results)
        part.ms += out.ms
      }
      out = part
      if (!out.ended || out.timed || out.broken || out.results.some((r) => r[1] !== 'passed')) break
    }
  } finally {
    restore(old)
  }
  if (fit) out.chosen = files
  return out
}

function put (req) {
  const old = []
  for (const name of Object.keys(req.files_b64 || {})) {
    const at = path.join(req.root, name)
    const had = fs.existsSync(at)
    old.push([at, had ? fs.readFileSync(at) : null])
    if (!had) fs.mkdirSync(path.dirname(at), { recursive: true })
    fs.writeFileSync(at, Buffer.from(req.files_b64[name], 'base64'))
  }
  return old
}

function restore (old) {
  for (const [at, data] of old) {
    if (data === null) fs.unlinkSync(at)
    else fs.writeFileSync(at, data)
  }
  for (const name of fs.readdirSync('/tmp')) {
    if (!temporary.has(name) && !name.startsWith('.assay-')) fs.rmSync('/tmp/' + name, { recursive: true, force: true })
  }
}

const say = (a) => fs.writeSync(1, '\nassay ' + JSON.stringify(a) + '\n')

async function main () {
  say({ ready: process.versions.node })
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const req = JSON.parse(line)
    try {
      say(await answer(req))
    } catch (e) {
      say({ fault: String(e && e.stack) })
    }
  }
  process.exit(0)
}

main()

'use strict'
// Runs test files again and again: the modules of others stay loaded, the project's and the tests' are loaded anew.
const path = require('path')
const { main, work, foreign, tell, below, idOf: id, World } = require('./node_world.cjs')

const root = path.dirname(path.dirname(main))
const mocha = (name) => require(path.join(root, name))
const Mocha = mocha('index.js')

const idOf = (test) => id(test.file, test.titlePath())

// And as its own reporter "json" does.
const plainID = (test) => {
  const full = test.fullTitle()
  const groups = full.endsWith(test.title) ? full.slice(0, full.length - test.title.length).replace(/ $/, '') : ''
  return [below(test.file), groups, test.title || '(no title)'].filter((s) => s !== '').map((s, i) => i ? s.replace(/ > /g, ' \\> ') : s).join(' > ')
}

let options = null
function settings () {
  if (options) return options
  const o = mocha('lib/cli/options.js').loadOptions(process.argv.slice(2))
  for (const k of Object.keys(o)) {
    const camel = k.replace(/-([a-z])/g, (_, c) => c.toUpperCase())
    if (!(camel in o)) o[camel] = o[k]
  }
  if (o.parallel || o.watch || o.forbidOnly || o.grep || o.fgrep || [].concat(o.require || []).some((r) => /ts-node|tsx|babel|swc|esbuild/.test(r)) ||
    [].concat(o['node-option'] || [], o.loader || [], o.import || []).length) {
    throw new Error('options that a warm worker does not know')
  }
  o.spec = [].concat(o.spec || [], o._ || [])
  if (!o.spec.length) o.spec.push('./test')
  return (options = o)
}

function testFiles (o) {
  const found = mocha('lib/cli/collect-files.js')({ ignore: o.ignore || [], extension: o.extension || ['js', 'cjs', 'mjs'], file: o.file || [], recursive: o.recursive, sort: o.sort, spec: o.spec })
  return Array.isArray(found) ? found : found.files
}

class Reporter {
  constructor (runner, o) {
    const of = o.reporterOptions.assay
    let current = null
    const flush = () => {
      if (current) tell({ e: current.id, o: current.status, m: current.text })
      current = null
    }
    const text = (err) => String((err && (err.stack || err.message)) || err).slice(0, 3000)
    runner.on('test', (t) => { flush(); current = { t, id: of.id(t), status: 'error', text: 'it ended without a result' }; tell({ s: current.id }) })
    runner.on('pass', (t) => { if (current && current.t.title === t.title) Object.assign(current, { status: 'passed', text: '' }) })
    runner.on('pending', (t) => { flush(); tell({ e: of.id(t), o: 'skipped', m: '' }) })
    runner.on('fail', (t, err) => {
      if (t.type !== 'hook') {
        if (!current || current.t.title !== t.title) { flush(); current = { id: of.id(t), t } }
        Object.assign(current, { status: 'failed', text: text(err) })
        return
      }
      if (current && / each" hook/.test(t.title)) Object.assign(current, { status: 'error', text: text(err) })
      flush()
      const first = t.parent && firstOf(t.parent) // whose tests do not run
      if (first) tell({ e: of.id(first), o: 'error', m: text(err) })
      tell({ e: of.id(t), o: 'error', m: text(err) })
    })
    runner.on('suite end', (s) => { flush(); if (of.after) of.after(s) })
    runner.once('end', flush)
  }
}

function firstOf (suite) {
  return suite.tests[0] || suite.suites.reduce((found, s) => found || firstOf(s), null)
}

function only (suite, keep) {
  suite.tests = suite.tests.filter(keep)
  suite.suites.forEach((s) => only(s, keep))
}

class Watch {
  constructor () {
    const { Session } = require('inspector')
    this.s = new Session()
    this.s.connect()
    this.s.post('Profiler.enable')
    this.s.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    this.scripts = {}
    this.tests = {}
  }

  look () {
    const out = {}
    this.s.post('Profiler.takePreciseCoverage', (err, r) => {
      if (err) return
      for (const s of r.result) {
        let file = s.url
        if (file.startsWith('file:')) file = require('url').fileURLToPath(file)
        if (!path.isAbsolute(file) || foreign(file)) continue
        const list = (this.scripts[file] = this.scripts[file] || [])
        const at = (this[file] = this[file] || new Map())
        out[file] = out[file] || []
        for (const f of s.functions) {
          const { startOffset, endOffset, count } = f.ranges[0]
          const k = startOffset + ':' + endOffset
          if (!at.has(k)) { at.set(k, list.length); list.push([startOffset, endOffset]) }
          if (count) out[file][at.get(k)] = 1
        }
      }
    })
    return out
  }

  end () {
    this.s.post('Profiler.stopPreciseCoverage')
    this.s.disconnect()
  }
}

async function run (m) {
  const o = settings()
  const world = new World()
  let broken = ''
  let watch = null
  let calls = null
  try {
    if (m.watch) watch = new Watch()
    const ids = new Set(m.want)
    const { handleRequires } = mocha('lib/cli/run-helpers.js')
    const plugins = (await handleRequires([].concat(o.require || []), { ignoredPlugins: [] })) || {}
    if (plugins.globalSetup || plugins.globalTeardown) throw new Error('global fixtures')
    const of = {}
    const runner = new Mocha(Object.assign({}, o, { bail: !!m.stop || o.bail, reporter: Reporter, reporterOption: undefined, reporterOptions: { assay: of }, forbidPending: false, exit: false, color: false }))
    const rootHooks = plugins.rootHooks || (Array.isArray(plugins) ? plugins : null)
    if (rootHooks && runner.rootHooks) runner.rootHooks(rootHooks)
    runner.files = m.files || testFiles(o)
    runner.loadFiles()
    let named = 0 // whose form of ids these are
    runner.suite.eachTest((t) => { named += ids.has(idOf(t)) - ids.has(plainID(t)) })
    of.id = named >= 0 ? idOf : plainID
    only(runner.suite, (t) => ids.has(of.id(t)))
    if (watch) {
      calls = { load: watch.look(), tests: {}, scripts: watch.scripts }
      of.after = (s) => {
        const file = s.file || (s.suites[0] && s.suites[0].file)
        if (!s.parent || !s.parent.root) return
        const seen = watch.look()
        const have = (calls.tests[file] = calls.tests[file] || {})
        for (const f of Object.keys(seen)) seen[f].forEach((v, i) => { (have[f] = have[f] || [])[i] = 1 })
      }
    }
    if (runner.lazyLoadFiles) runner.lazyLoadFiles(true)
    else runner.files = []
    await new Promise((resolve) => runner.run(resolve))
  } catch (e) {
    broken = String((e && e.stack) || e).slice(0, 3000)
  }
  if (watch) watch.end()
  const modules = m.watch ? Object.keys(require.cache).filter(foreign) : undefined
  const clean = world.restore() && !broken
  // What ends a moment later is let end.
  setImmediate(() => tell({ x: 1, broken, clean, calls, modules }))
}

process.on('message', (m) => {
  if (m.op === 'load') {
    for (const file of m.modules) { try { require(file) } catch (e) {} }
  } else run(m)
})
process.on('disconnect', () => process.exit(0))

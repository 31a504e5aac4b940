'use strict'
// Runs test files again and again through what a process of Jest's own pool of workers runs them with: Jest, its
// configuration, its map of the project and its transformed sources stay, each test file's modules are loaded anew.
const fs = require('fs')
const path = require('path')
const { main, work, tell, idOf, World } = require('./node_world.cjs')

if (process.env.NODE_ENV == null) process.env.NODE_ENV = 'test' // as Jest's program does
process.env.JEST_WORKER_ID = '1'
const MEMORY = 1.5e9 // bytes of a worker, above which it is not used again

// Packages are those that the runner's program itself finds.
const from = (name, at) => require.resolve(name, { paths: [at] })
const home = (name, at) => path.dirname(from(name + '/package.json', at))

let ready = null
const prepare = () => ready || (ready = make())

async function make () {
  const cli = path.basename(path.dirname(path.dirname(main))) === 'jest-cli' ? path.dirname(path.dirname(main)) : home('jest-cli', path.dirname(main))
  const builder = ['build/run.js', 'build/cli/index.js', 'build/index.js'].map((f) => path.join(cli, f)).filter((f) => fs.existsSync(f))
    .map((f) => require(f).buildArgv).find(Boolean)
  if (!builder) throw new Error('a Jest whose options cannot be read')
  const argv = await builder(process.argv.slice(2))
  if ((argv.projects || []).length || argv.watch || argv.watchAll || argv.shard || argv.testNamePattern || argv.onlyChanged || argv.findRelatedTests) {
    throw new Error('options that a warm worker does not know')
  }
  Object.assign(argv, { cacheDirectory: '/tmp/.assay-jest', coverage: false, json: false, outputFile: undefined, runInBand: true, reporters: undefined, silent: true, watchman: false })
  const core = home('@jest/core', cli)
  const { globalConfig, configs } = await require(from('jest-config', core)).readConfigs(argv, [work])
  const config = configs[0]
  const runner = home('jest-runner', core)
  if (configs.length > 1) throw new Error('several projects')
  if (!(config.runner === 'jest-runner' || config.runner.startsWith(runner + path.sep))) throw new Error('a runner of its own')
  if (globalConfig.globalSetup || globalConfig.globalTeardown || config.globalSetup || config.globalTeardown) throw new Error('global fixtures')
  const jest = require(path.join(runner, 'build/testWorker.js'))
  const Runtime = require(from('jest-runtime', runner))
  const { moduleMap } = await (Runtime.default || Runtime).createContext(config, { console, maxWorkers: 1, watch: false, watchman: false })
  jest.setup({ serializableResolvers: [{ config, serializableModuleMap: moduleMap.toJSON() }] })
  return { jest, config, plain: globalConfig, watched: Object.assign({}, globalConfig, { collectCoverage: true, coverageProvider: 'babel', collectCoverageFrom: [] }) }
}

const word = (a) => a.status === 'passed' ? (a.failing ? 'xfailed' : 'passed') : a.status === 'failed' ? (a.failing ? 'xpassed' : 'failed')
  : ['pending', 'skipped', 'todo', 'disabled'].includes(a.status) ? 'skipped' : 'unknown'

let file = '' // that runs
let told = new Set() // its tests that have been told

function result (a) {
  const id = idOf(file, [...(a.ancestorTitles || []), a.title])
  told.add(id)
  const o = word(a)
  tell({ e: id, o, m: o === 'passed' ? '' : (a.failureMessages || []).join('\n').slice(0, 3000) })
}

// What Jest's worker tells its parent while a file runs.
process.send = (m) => {
  const [event, args] = Array.isArray(m) && Array.isArray(m[1]) ? m[1] : []
  if (event === 'test-case-start') tell({ s: idOf(args[0], [...(args[1].ancestorTitles || []), args[1].title]) })
  if (event === 'test-case-result') result(args[1])
  return true
}

// Where a file's statements and functions lie, as offsets, and which of them have run; the first is the file itself.
class Watch {
  constructor (config) {
    this.transforms = (config.transform || []).map((t) => [new RegExp(t[0]), t[1]])
    this.calls = { load: {}, tests: {}, scripts: {} }
    this.offsets = new Map()
  }

  take (test, coverage) {
    const have = (this.calls.tests[test] = {})
    for (const [at, c] of Object.entries(coverage || {})) {
      // Jest's own transformer counts where the source has it; of another that is not known.
      const [, by] = this.transforms.find(([re]) => re.test(at)) || [null, null]
      if (c.inputSourceMap || by && !/[\\/]babel-jest[\\/]/.test(by)) continue
      const places = [...Object.entries(c.statementMap).map(([k, l]) => [l, c.s[k]]), ...Object.entries(c.fnMap).map(([k, f]) => [f.loc, c.f[k]])]
      this.calls.scripts[at] = this.calls.scripts[at] || [[0, 0], ...places.map(([l]) => [this.offset(at, l.start), this.offset(at, l.end)])]
      have[at] = [1, ...places.map(([, n]) => n ? 1 : 0)]
    }
  }

  offset (at, p) {
    if (!this.offsets.has(at)) {
      const ends = fs.readFileSync(at, 'utf8').matchAll(/\r\n|[\n\r\u2028\u2029]/g)
      this.offsets.set(at, [0, ...Array.from(ends, (e) => e.index + e[0].length)])
    }
    return this.offsets.get(at)[p.line - 1] + p.column
  }
}

async function run (m) {
  let broken = ''
  let clean = true
  let calls = null
  try {
    const j = await prepare()
    const ids = new Map((m.files || []).map((f) => [f, []])) // wanted, by file
    for (const id of m.want) {
      const f = path.resolve(work, id.split(' > ')[0])
      if (!m.files && !ids.has(f)) ids.set(f, [])
      if (ids.has(f)) ids.get(f).push(id)
    }
    const watch = m.watch ? new Watch(j.config) : null
    const unloaded = [] // files that gave no test
    let some = false
    for (file of ids.keys()) {
      const world = new World()
      told = new Set()
      let bad = false
      try {
        const r = await j.jest.worker({ config: j.config, globalConfig: m.watch ? j.watched : j.plain, path: file, context: {} })
        for (const a of r.testResults) if (!told.has(idOf(file, [...a.ancestorTitles, a.title]))) result(a)
        bad = r.numFailingTests > 0 || !!r.testExecError
        if (r.testExecError && !r.testResults.length) unloaded.push([file, r.failureMessage || r.testExecError.message])
        if (watch) watch.take(file, r.coverage)
      } catch (e) {
        bad = true
        unloaded.push([file, (e && (e.stack || e.message)) || e])
      }
      clean = world.restore() && clean
      some = some || told.size > 0
      if (bad && some && m.stop) break
    }
    if (!some && unloaded.length) broken = String(unloaded[0][1]).slice(0, 3000)
    else {
      for (const [f, text] of unloaded) for (const id of ids.get(f) || []) tell({ e: id, o: 'error', m: String(text).slice(0, 3000) })
    }
    if (watch) calls = watch.calls
  } catch (e) {
    broken = String((e && e.stack) || e).slice(0, 3000)
  }
  clean = clean && !broken && process.memoryUsage().rss < MEMORY
  setImmediate(() => tell({ x: 1, broken, clean, calls, modules: [] }))
}

process.on('message', (m) => {
  if (m.op === 'load') prepare().catch(() => {}) // a run says why
  else run(m)
})
process.on('disconnect', () => process.exit(0))

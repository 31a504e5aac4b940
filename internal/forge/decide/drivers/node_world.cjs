'use strict'
// What the workers of all runners share: how they speak to their server, and what of the process a run must leave as
// it was.
const path = require('path')

const main = process.env.ASSAY_MAIN // the runner's program
delete process.env.ASSAY_MAIN
process.argv.splice(1, 1, main)
const work = process.cwd()
const foreign = (file) => !file.startsWith(work + path.sep) || /[\\/]node_modules[\\/]/.test(file)
const send = process.send.bind(process) // the runner may find another
const tell = (m) => send(m, () => {})

const below = (file) => {
  if (!file) return ''
  const rel = path.relative(work, file)
  return rel.startsWith('..') ? file : rel
}

// A test's id as assay's readers of reports make it.
const idOf = (file, titles) => [below(file), ...titles.filter((t, i) => t !== '' || i === titles.length - 1)
  .map((t) => (t || '(no title)').replace(/ > /g, ' \\> '))].filter((s) => s !== '').join(' > ')

const events = ['uncaughtException', 'unhandledRejection', 'exit', 'beforeExit', 'warning', 'SIGINT', 'SIGTERM']

class World {
  constructor () {
    this.env = Object.assign({}, process.env)
    this.names = new Set(Object.getOwnPropertyNames(global))
    this.listeners = new Map(events.map((e) => [e, process.listeners(e)]))
    this.handles = new Set(process._getActiveHandles())
  }

  // restore ends what a run left behind, as far as that can be seen.
  restore () {
    let clean = true
    for (const k of Object.keys(process.env)) if (!(k in this.env)) delete process.env[k]
    Object.assign(process.env, this.env)
    try { process.chdir(work) } catch (e) { clean = false }
    for (const k of Object.getOwnPropertyNames(global)) {
      if (!this.names.has(k)) { try { if (!delete global[k]) clean = false } catch (e) { clean = false } }
    }
    for (const [e, had] of this.listeners) {
      for (const l of process.listeners(e)) if (!had.includes(l)) process.removeListener(e, l)
    }
    for (const h of process._getActiveHandles()) {
      if (this.handles.has(h)) continue
      if (typeof h.close === 'function' && typeof h.address === 'function') { try { h.close() } catch (e) {} } else if (typeof h.destroy === 'function') h.destroy()
      else clean = false
    }
    for (const file of Object.keys(require.cache)) if (!foreign(file)) delete require.cache[file]
    return clean
  }
}

module.exports = { main, work, foreign, tell, below, idOf, World }

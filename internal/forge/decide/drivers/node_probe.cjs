'use strict'
// Loaded before the suite's own command: where that starts Mocha or Jest, the server beside this file stands in its
// place and learns how it was called.
const fs = require('fs')
const path = require('path')

const here = '/.assay-decide'
const called = process.argv[1] && /^_?(mocha|jest)(\.[cm]?js)?$/.exec(path.basename(process.argv[1]))
if (__dirname === here && called) {
  const env = Object.assign({}, process.env, {
    ASSAY_STATE: JSON.stringify({ runner: called[1], argv: process.argv.slice(2), main: fs.realpathSync(process.argv[1]), flags: process.execArgv })
  })
  env.NODE_OPTIONS = (env.NODE_OPTIONS || '').replace('--require ' + __filename, '').trim()
  if (!env.NODE_OPTIONS) delete env.NODE_OPTIONS
  const r = require('child_process').spawnSync(process.execPath, [path.join(here, 'node_server.cjs')], { stdio: 'inherit', env })
  process.exit(r.status === null ? 1 : r.status)
}

'use strict'
// Loaded before the suite's own command: where that starts Mocha, the server beside this file stands in its place
// and learns how it was called.
const fs = require('fs')
const path = require('path')

const here = '/.assay-decide'
if (__dirname === here && process.argv[1] && /^_?mocha(\.c?js)?$/.test(path.basename(process.argv[1]))) {
  const env = Object.assign({}, process.env, {
    ASSAY_STATE: JSON.stringify({ argv: process.argv.slice(2), main: fs.realpathSync(process.argv[1]), flags: process.execArgv })
  })
  env.NODE_OPTIONS = (env.NODE_OPTIONS || '').replace('--require ' + __filename, '').trim()
  if (!env.NODE_OPTIONS) delete env.NODE_OPTIONS
  const r = require('child_process').spawnSync(process.execPath, [path.join(here, 'mocha_server.cjs')], { stdio: 'inherit', env })
  process.exit(r.status === null ? 1 : r.status)
}

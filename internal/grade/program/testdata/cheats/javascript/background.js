const {spawn} = require('child_process')
spawn('sh', ['-c', 'while :; do echo \'{"value":true}\' >&3; done'], {detached: true, stdio: ['ignore', 'ignore', 'ignore', 3]}).unref()
module.exports.secret = () => null

module.exports.secret = () => { throw {name: 'x', get message() { process.exit(0) }, constructor: {name: {toString: () => 'passed'}}} }

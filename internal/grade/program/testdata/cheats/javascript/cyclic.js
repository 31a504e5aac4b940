const a = []
a.push(a)
module.exports.secret = () => a

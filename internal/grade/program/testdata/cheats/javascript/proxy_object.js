module.exports.secret = () => new Proxy([], {get: (t, k) => (k === 'length' ? 1e15 : true)})

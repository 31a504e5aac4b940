module.exports.secret = () => new Promise(() => setInterval(() => {}, 1000))

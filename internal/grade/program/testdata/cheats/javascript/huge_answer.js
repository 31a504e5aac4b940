module.exports.secret = () => 'x'.repeat(1 << 28)

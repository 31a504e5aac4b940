'use strict'

class Stock {
  constructor () {
    this.have = new Map()
  }

  put (name, count) {
    this.have.set(name, (this.have.get(name) || 0) + count)
    return this
  }

  async take (name, count) {
    const left = (this.have.get(name) || 0) - count
    if (left < 0) throw new Error('out of ' + name)
    this.have.set(name, left)
    return left
  }
}

module.exports = { Stock }

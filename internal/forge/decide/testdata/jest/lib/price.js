'use strict'

exports.total = function (items) {
  return items.reduce((sum, item) => sum + item.price * (item.count || 1), 0)
}

exports.discount = function (sum, percent) {
  if (percent > 50) throw new RangeError('too much')
  return Math.round(sum * (100 - percent)) / 100
}

exports.unused = function (sum) {
  return sum / 2
}

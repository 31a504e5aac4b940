const { total, discount } = require('../lib/price')

describe('price', () => {
  test('adds > counts', () => expect(total([{ price: 3, count: 2 }, { price: 4 }])).toBe(10))
  test.each([[0, 100], [20, 80]])('takes %d percent', (percent, left) => expect(discount(100, percent)).toBe(left))
  test('refuses', () => expect(() => discount(100, 60)).toThrow(RangeError))
  test.skip('later', () => {})
})

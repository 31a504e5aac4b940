const { Stock } = require('../lib/stock')
const { total } = require('../lib/price')

jest.mock('../lib/price', () => ({ total: jest.fn(() => 7) }))

test('keeps count', async () => {
  const stock = new Stock().put('tea', 2).put('tea', 1)
  expect(await stock.take('tea', 2)).toBe(1)
  await expect(stock.take('tea', 2)).rejects.toThrow('out of tea')
})

test('has a price of its own', () => expect(total([])).toBe(7))

// Every kind of result that Jest has.
test('passes', () => { console.log('  ✓ fails (1 ms)'); });
test('fails', () => { expect(1 + 1).toBe(3); });
test('throws', () => { throw new TypeError('\u001b[31mred\u001b[0m 雪\nsecond line'); });
test('throws what is no error', () => { throw 'text'; });
test.skip('skipped', () => {});
test.todo('todo');
test.failing('fails as expected', () => { throw new Error('known'); });
test.failing('passes though not expected', () => {});
test('times out', (done) => {}, 50);
test('rejects', async () => { await Promise.reject(new Error('async')); });

describe('outer', () => {
  test('fails', () => {});
  describe('inner > deeper', () => { test('leaf', () => {}); });
  describe('inner', () => { test('deeper > leaf', () => {}); });
  describe('inner', () => { describe('deeper', () => { test('leaf', () => {}); }); });
});
describe('a b', () => { test('c', () => {}); });
describe('a', () => { test('b c', () => {}); });
describe.skip('skipped group', () => { test('in it', () => {}); });

describe('before each', () => { beforeEach(() => { throw new Error('set-up'); }); test('one', () => {}); });
describe('after each', () => { afterEach(() => { throw new Error('tear-down'); }); test('one', () => {}); });
describe('before all', () => { beforeAll(() => { throw new Error('set-up'); }); test('one', () => {}); test('two', () => {}); });
describe('after all', () => { afterAll(() => { throw new Error('tear-down'); }); test('one', () => {}); test('two', () => {}); });

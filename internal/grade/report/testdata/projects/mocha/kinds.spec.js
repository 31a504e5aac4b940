// Every kind of result that Mocha has.
const assert = require('assert');

it('passes', () => { console.log('  ✔ fails'); });
it('fails', () => { assert.strictEqual(1 + 1, 3); });
it('throws', () => { throw new TypeError('\u001b[31mred\u001b[0m 雪\nsecond line'); });
it('throws what is no error', () => { throw 'text'; });
it.skip('skipped', () => {});
it('skips itself', function () { this.skip(); });
it('pending');
it('times out', function (done) { this.timeout(50); });
it('rejects', async () => { throw new Error('async'); });
it('calls done twice', (done) => { done(); done(); });
it('again and again', function () { this.retries(2); assert(false); });

describe('outer', () => {
  it('fails', () => {});
  describe('inner > deeper', () => { it('leaf', () => {}); });
  describe('inner', () => { it('deeper > leaf', () => {}); });
});
describe('a b', () => { it('c', () => {}); });
describe('a', () => { it('b c', () => { assert(false); }); });
describe.skip('skipped group', () => { it('in it', () => {}); });
describe('before each', () => { beforeEach(() => { throw new Error('set-up'); }); it('one', () => {}); it('two', () => {}); });
describe('after each', () => { afterEach(() => { throw new Error('tear-down'); }); it('one', () => {}); it('two', () => {}); });
describe('before all', () => { before(() => { throw new Error('set-up'); }); it('one', () => {}); });
describe('after all', () => { after(() => { throw new Error('tear-down'); }); it('one', () => {}); });

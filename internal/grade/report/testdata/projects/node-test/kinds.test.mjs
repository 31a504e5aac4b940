// Every kind of result that node:test has.
import { after, afterEach, before, beforeEach, describe, it, test } from 'node:test';
import assert from 'node:assert';

test('passes', () => { console.log('ok 1 - fails'); console.log('not a line of it'); });
test('fails', () => { assert.strictEqual(1 + 1, 3); });
test('throws', () => { throw new TypeError('\u001b[31mred\u001b[0m 雪\nsecond line'); });
test('throws what is no error', () => { throw 'text'; });
test('skipped', { skip: 'not here' }, () => {});
test('skips itself', (t) => { t.skip('later'); });
test('todo passes', { todo: true }, () => {});
test('todo fails', { todo: 'known' }, () => { throw new Error('known'); });
test('times out', { timeout: 50 }, () => new Promise((r) => setTimeout(r, 400)));
test('rejects', async () => { throw new Error('async'); });
test('a subtest fails', async (t) => {
  await t.test('one', () => {});
  await t.test('two', () => { assert.ok(false); });
});
test('nobody waits for a subtest', (t) => { t.test('late', () => new Promise((r) => setTimeout(r, 1000))); });

describe('outer', () => {
  it('fails', () => {});
  describe('inner > deeper', () => { it('leaf', () => {}); });
  describe('inner', () => { it('deeper > leaf', () => {}); });
});
describe('skipped group', { skip: true }, () => { it('in it', () => {}); });
describe('before each', () => { beforeEach(() => { throw new Error('set-up'); }); it('one', () => {}); });
describe('after each', () => { afterEach(() => { throw new Error('tear-down'); }); it('one', () => {}); });
describe('before all', () => { before(() => { throw new Error('set-up'); }); it('one', () => {}); it('two', () => {}); });
describe('after all', () => { after(() => { throw new Error('tear-down'); }); it('one', () => {}); });
describe('empty group', () => {});

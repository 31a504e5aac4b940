// Every kind of result that Vitest has.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

test('passes', () => { console.log(' ✓ fails 1ms'); });
test('fails', () => { expect(1 + 1).toBe(3); });
test('throws', () => { throw new TypeError('\u001b[31mred\u001b[0m 雪\nsecond line'); });
test('throws what is no error', () => { throw 'text'; });
test.skip('skipped', () => {});
test('skips itself', (ctx) => { ctx.skip(); });
test.todo('todo');
test.fails('fails as expected', () => { throw new Error('known'); });
test.fails('passes though not expected', () => {});
test('times out', () => new Promise(() => {}), 50);
test('rejects', async () => { await Promise.reject(new Error('async')); });
test('again and again', { retry: 2 }, () => { throw new Error('each time'); });

describe('outer', () => {
  test('fails', () => {});
  describe('inner > deeper', () => { test('leaf', () => {}); });
  describe('inner', () => { test('deeper > leaf', () => {}); });
});
describe('a b', () => { test('c', () => {}); });
describe('a', () => { test('b c', () => {}); });
describe.skip('skipped group', () => { test('in it', () => {}); });

describe('before each', () => { beforeEach(() => { throw new Error('set-up'); }); test('one', () => {}); });
describe('after each', () => { afterEach(() => { throw new Error('tear-down'); }); test('one', () => {}); });
describe('before all', () => { beforeAll(() => { throw new Error('set-up'); }); test('one', () => {}); test('two', () => {}); });
describe('after all', () => { afterAll(() => { throw new Error('tear-down'); }); test('one', () => {}); test('two', () => {}); });

// Every kind of result that node-tap has.
const t = require('tap');

t.test('passes', (t) => { t.plan(2); t.equal(1, 1); t.equal(2, 2); });
t.test('fails', (t) => { t.equal(1 + 1, 3, 'two is three'); t.end(); });
t.test('names', (t) => { t.pass('a # TODO b'); t.pass('雪 \u001b[31mred\u001b[0m'); t.pass('line\nbreak'); t.pass('back\\slash {'); t.end(); });
t.test('throws', async () => { throw new TypeError('async'); });
t.test('skipped', { skip: 'not here' }, (t) => { t.fail('never'); t.end(); });
t.test('todo', { todo: 'known' }, (t) => { t.fail('known'); t.end(); });
t.test('todo inside', (t) => { t.equal(1, 2, 'known', { todo: true }); t.equal(1, 1, { todo: true }); t.equal(1, 2, { skip: true }); t.end(); });
t.test('outer', async (t) => {
  await t.test('inner', async (s) => { s.pass(); });
  await t.test('inner', async (s) => { s.equal(1, 2); });
});
t.test('too few', (t) => { t.plan(2); t.pass('one'); t.end(); });
t.test('times out', { timeout: 50 }, () => new Promise((r) => setTimeout(r, 300)));
t.test('buffered', { buffered: true }, async (t) => { t.pass('in braces'); await t.test('deeper', async (s) => { s.pass(); }); });

// Every kind of result that tape has.
const test = require('tape');

test('passes', (t) => { t.plan(2); t.equal(1, 1); t.equal(2, 2); });
test('fails', (t) => { t.equal(1 + 1, 3, 'two is three'); t.end(); });
test('has a name # SKIP in it', (t) => { t.pass('a # TODO b'); t.pass('雪 \u001b[31mred\u001b[0m'); t.pass('line\nbreak'); t.pass('back\\slash'); t.end(); });
test('throws', (t) => { t.throws(() => {}, 'nothing thrown'); t.end(); });
test('skipped', { skip: true }, (t) => { t.fail('never'); t.end(); });
test('an assertion is skipped', (t) => { t.skip('not here'); t.end(); });
test('todo', { todo: true }, (t) => { t.fail('known'); t.pass('not known'); t.end(); });
test('outer', (t) => {
  t.test('inner', (s) => { s.pass(); s.end(); });
  t.test('inner', (s) => { s.equal(1, 2); s.end(); });
});
test('ends twice', (t) => { t.end(); t.end(); });
test('too few', (t) => { t.plan(2); t.pass('one'); setTimeout(() => t.pass('two'), 20); });
test('prints', (t) => { console.log('a line of its own'); t.pass('after it'); t.end(); });
test('times out', { timeout: 50 }, (t) => { t.plan(1); setTimeout(() => {}, 200); });

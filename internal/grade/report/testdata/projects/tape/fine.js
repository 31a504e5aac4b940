const test = require('tape');
test('passes', (t) => { t.pass('one'); t.end(); });

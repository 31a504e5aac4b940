const test = require('tape');
test('passes', (t) => { t.pass('one'); t.end(); });
test('dies', (t) => { process.exit(0); });

const test = require('tape');
test('prints what looks like a result', (t) => { console.log('ok 1 should be equal'); t.equal(1, 2); t.end(); });

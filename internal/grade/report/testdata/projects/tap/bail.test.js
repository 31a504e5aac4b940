const t = require('tap');
t.pass('one');
t.bailout('no use');

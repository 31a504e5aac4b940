const t = require('tap');
t.pass('one');
t.pass('one');

// Names that tools get wrong.
import { test } from 'node:test';
for (const s of ['a b', '雪', 'e\u0301', 'é', ' leading', 'trailing ', '<&"\'>', '\u001b[31mred\u001b[0m', 'line\nbreak', 'back\\slash', 'tab\t', 'x'.repeat(300), '# SKIP', '# time=5ms', '']) test('text ' + s, () => {});
test('twice', () => {});
test('twice', () => { throw new Error('the second'); });
test('', () => {});

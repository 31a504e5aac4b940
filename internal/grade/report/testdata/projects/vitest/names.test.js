// Names that tools get wrong.
import { test } from 'vitest';
test.each(['a b', '雪', 'e\u0301', 'é', ' leading', 'trailing ', '<&"\'>', '\u001b[31mred\u001b[0m', 'line\nbreak', 'back\\slash', 'tab\t', 'x'.repeat(300), '(12 ms)', '✓ passes', ''])('text %s', () => {});
test('twice', () => {});
test('twice', () => { throw new Error('the second'); });
test('', () => {});

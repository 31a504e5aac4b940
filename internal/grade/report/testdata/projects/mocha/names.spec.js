// Names that tools get wrong.
for (const s of ['a b', '雪', 'e\u0301', 'é', ' leading', 'trailing ', '<&"\'>', '\u001b[31mred\u001b[0m', 'line\nbreak', 'back\\slash', 'tab\t', 'x'.repeat(300), '(12ms)', '✔ passes', '']) it('text ' + s, () => {});
it('twice', () => {});
it('twice', () => { throw new Error('the second'); });
it('', () => {});

test('never', () => {

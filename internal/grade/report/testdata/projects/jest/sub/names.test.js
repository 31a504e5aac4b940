// A namesake of ../names.test.js.
test('twice', () => {});

// A namesake of ../names.spec.js.
it('twice', () => {});

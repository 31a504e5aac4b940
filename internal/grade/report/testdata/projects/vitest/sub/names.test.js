import { test } from 'vitest';
// A namesake of ../names.test.js.
test('twice', () => {});

// A namesake of ../names.test.mjs.
import { test } from 'node:test';
test('twice', () => {});

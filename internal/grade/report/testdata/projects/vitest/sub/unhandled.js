import { test } from 'vitest';
test('passes', () => { Promise.reject(new Error('nobody waits')); });

// The long form of rotation.test.ts.

import { expect, test } from 'bun:test';
import { rotateUnderLoad } from '../load/rotation-load.ts';

test('1,000 rotations of keys in use: no call is refused', async () => {
  const counts = await rotateUnderLoad(50);
  console.log('calls during 1,000 rotations, by status:', counts);
  expect(Object.keys(counts)).toEqual(['200']);
});

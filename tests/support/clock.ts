// A clock that moves only by hand: the one that the package offers for tests.

export { type TestClock, testClock } from '../../src/start/package/testing/clock.ts';

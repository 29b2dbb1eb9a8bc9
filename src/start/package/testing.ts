// `mcp-key-server/testing`: for tests of tools. Exports only.

export type { TestClock } from './testing/clock.ts';
export {
  createTestApp,
  type LogLine,
  type TestApp,
  type TestAppOptions,
  type TestResponse,
} from './testing/test-app.ts';

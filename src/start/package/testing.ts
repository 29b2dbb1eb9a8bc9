// `mcp-key-server/testing`, for tests of tools. Only exports.

export type { TestClock } from './testing/clock.ts';
export type { McpAnswer, McpAsked, McpCallOptions, McpClient, McpOptions, McpResult } from './testing/mcp-client.ts';
export {
  createTestApp,
  type LogLine,
  type TestApp,
  type TestAppOptions,
  type TestResponse,
} from './testing/test-app.ts';

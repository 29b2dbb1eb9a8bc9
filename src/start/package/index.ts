// The package `mcp-key-server`: what tool files import, and what starts a server with them. Only exports.

export { type App, createService, type Service, type ServiceOptions } from '../../app.ts';
export { type Config, parseConfig } from '../../config/config.ts';
export { type Clock, type RandomBytes, type Sha256, systemClock, systemRandom } from '../../ground/runtime.ts';
export * from '../../tools/folder/module.ts';
export type { StartOptions } from '../../tools/folder/tool-file.ts';
export { createLog, type Log } from '../../watch/log.ts';
export { start } from './start.ts';

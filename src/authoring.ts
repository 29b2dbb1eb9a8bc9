// What a tool file imports as `mcp-key-server`. Exports only.

export * as v from 'valibot';
export type { KeyAuth } from './guards/api-key.ts';
export { type Guard, sequence } from './guards/guard.ts';
export type { UserAuth } from './guards/user-jwt.ts';
export { type Awaitable, err, ok, type Result } from './lib/result.ts';
export type { Resource, ResourceContent } from './mcp/resource.ts';
export type { Problem } from './problem.ts';
export type { Answers, Ask, InputRequired, Unavailable } from './tools/core/ask.ts';
export type { Call } from './tools/core/call.ts';
export type { ContentBlock, ToolContent } from './tools/core/content.ts';
export { type Failure, failure } from './tools/core/failure.ts';
export { definePrompt, type Prompt, type PromptFacts, type PromptMessages } from './tools/core/prompt.ts';
export {
  type FormAnswer,
  form,
  type Question,
  type Root,
  roots,
  type Sampled,
  type Sampling,
  sample,
} from './tools/core/questions.ts';
export type { Settings, SettingsSchema } from './tools/core/settings.ts';
export { defineTool, type Tool, type ToolFacts } from './tools/core/tool.ts';
export type { MakePrompts, MakeTools } from './tools/core/tool-file.ts';
export type { ToolDeps, ToolLimit } from './tools/core/toolbox.ts';

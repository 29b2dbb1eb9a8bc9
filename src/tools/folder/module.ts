// The module that tool files import as `mcp-key-server`. It only re-exports.

export * as v from 'valibot';
export type { KeyAuth } from '../../calls/api-key.ts';
export type { Answers, Ask, InputRequired, Unavailable } from '../../calls/ask.ts';
export type { Call } from '../../calls/call.ts';
export type { ContentBlock, Resource, ResourceContent, ToolContent } from '../../calls/content.ts';
export { type Failure, failure } from '../../calls/failure.ts';
export { type Guard, sequence } from '../../calls/guard.ts';
export type { ToolLimit } from '../../calls/guards.ts';
export { definePrompt, type Prompt, type PromptFacts, type PromptMessages } from '../../calls/prompt.ts';
export {
  type FormAnswer,
  form,
  type Question,
} from '../../calls/questions.ts';
export { defineTool, type Tool, type ToolFacts } from '../../calls/tool.ts';
export type { UserAuth } from '../../calls/user-jwt.ts';
export type { Problem } from '../../ground/problem.ts';
export { type Awaitable, err, ok, type Result } from '../../ground/result.ts';
export type { MakePrompts, MakeTools, Settings, SettingsSchema, ToolDeps } from './tool-file.ts';

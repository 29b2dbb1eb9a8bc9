// The types of what goes over the wire are the SDK's, which the source does without. The compiler is the test.

import { expect, test } from 'bun:test';
import type {
  CallToolResult,
  GetPromptResult,
  Implementation,
  Prompt,
  Resource,
  ContentBlock as SdkContentBlock,
  ServerCapabilities,
  Tool,
  ToolAnnotations,
} from '@modelcontextprotocol/sdk/types.js';
import type { SERVER_INFO } from '../../src/mcp/message.ts';
import type { capabilitiesOf, describePrompt, describeResource, describeTool } from '../../src/mcp/results.ts';
import type { ContentBlock, PromptMessages, ToolContent, ToolFacts } from '../../src/start/package/index.ts';

type Fits<A, B> = [A] extends [B] ? true : false;
type Same<A, B> = [Fits<A, B>, Fits<B, A>];
/** The SDK's types are for writing, too. */
type Mutable<T> = T extends object ? { -readonly [Name in keyof T]: Mutable<T[Name]> } : T;
type OfType<Union, Type> = Extract<Union, { type: Type }>;

const SAME: [true, true] = [true, true];

test('content blocks are those of the SDK, in both directions', () => {
  const blocks: readonly [true, true][] = [
    SAME satisfies Same<OfType<ContentBlock, 'text'>, OfType<SdkContentBlock, 'text'>>,
    SAME satisfies Same<OfType<ContentBlock, 'image'>, OfType<SdkContentBlock, 'image'>>,
    SAME satisfies Same<OfType<ContentBlock, 'audio'>, OfType<SdkContentBlock, 'audio'>>,
    SAME satisfies Same<OfType<ContentBlock, 'resource_link'>, OfType<SdkContentBlock, 'resource_link'>>,
    SAME satisfies Same<OfType<ContentBlock, 'resource'>, OfType<SdkContentBlock, 'resource'>>,
    SAME satisfies Same<ContentBlock['type'], SdkContentBlock['type']>,
    SAME satisfies Same<ToolContent, Pick<CallToolResult, 'content' | 'isError'>>,
  ];
  expect(blocks).toHaveLength(7);
});

test('what the lists say fits the types of the SDK', () => {
  const listed: readonly true[] = [
    true satisfies Fits<ReturnType<typeof describeTool>, Tool>,
    true satisfies Fits<ReturnType<typeof describeResource>, Resource>,
    true satisfies Fits<typeof SERVER_INFO, Implementation>,
    true satisfies Fits<Mutable<ReturnType<typeof describePrompt>>, Prompt>,
    true satisfies Fits<Mutable<PromptMessages>, Pick<GetPromptResult, 'description' | 'messages'>>,
    true satisfies Fits<ReturnType<typeof capabilitiesOf>, ServerCapabilities>,
    true satisfies Fits<ToolFacts['annotations'], ToolAnnotations>,
  ];
  expect(listed).toHaveLength(7);
});

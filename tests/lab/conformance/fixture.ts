// The tools, prompts and resources that the conformance suite asks a server for, made with this project's own functions.
// Their names, texts and values are the suite's.

import * as v from 'valibot';
import {
  type Ask,
  definePrompt,
  defineTool,
  form,
  ok,
  type Prompt,
  type PromptMessages,
  type Resource,
  type Tool,
  type ToolContent,
  type ToolFacts,
} from '../../../src/start/package/index.ts';
import { anyone, facts } from '../../support/tools.ts';

// One red pixel, and 16 bytes of silence.
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const nothing = v.strictObject({});

const answering = (name: string, description: string, answer: ToolContent, more: Partial<ToolFacts> = {}): Tool =>
  defineTool(anyone, { ...facts(name, description), ...more, input: nothing, run: () => ok(answer) });

const text = (value: string) => ({ type: 'text' as const, text: value });
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' };

const withProgress = defineTool(anyone, {
  ...facts('test_tool_with_progress', 'Reports 0, 50 and 100 of 100'),
  input: nothing,
  async run(_input, { progress }) {
    for (const reached of [0, 50, 100]) {
      progress(reached, 100);
      await Bun.sleep(50);
    }
    return ok({ content: [text('done')] });
  },
});

const withHeader = defineTool(anyone, {
  ...facts('test_header_param', 'Has a parameter that clients repeat in a header'),
  input: v.strictObject({ region: v.optional(v.pipe(v.string(), v.metadata({ 'x-mcp-header': 'Region' }))) }),
  run: ({ region }) => ok({ content: [text(region ?? 'none')] }),
});

// Its schema is listed as it stands here, to show that none of its keywords get lost.
const withSchema: Tool = {
  ...answering('json_schema_2020_12_tool', 'Has an input schema with keywords of 2020-12', { content: [text('ok')] }),
  inputSchema: () => ({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  }),
};

const name = form(v.strictObject({ name: v.string() }));
const color = form(v.strictObject({ color: v.string() }));
const confirm = form(v.strictObject({ ok: v.boolean() }));
const context = form(v.strictObject({ context: v.string() }));
const says = (value: unknown) => ok({ content: [text(JSON.stringify(value))] });

/** A tool that asks these, and says what it was answered. */
const asking = (tool: string, description: string, questions: Parameters<Ask>[0], prefix = ''): Tool =>
  defineTool(anyone, {
    ...facts(tool, description),
    input: nothing,
    run(_input, { ask }) {
      const asked = ask(questions);
      return asked.ok ? says([prefix, asked.value]) : asked;
    },
  });

const multiRound = defineTool(anyone, {
  ...facts('test_input_required_result_multi_round', 'Asks twice'),
  input: nothing,
  run(_input, { ask }) {
    const first = ask({ step1: name('Step 1: What is your name?') });
    if (!first.ok) return first;
    const second = ask({ step2: color('Step 2: What is your favorite color?') });
    return second.ok ? says({ ...first.value, ...second.value }) : second;
  },
});

const askingTools: readonly Tool[] = [
  asking('test_input_required_result_elicitation', 'Asks for a name', { user_name: name('What is your name?') }),
  asking('test_input_required_result_request_state', 'Has a state', { confirm: confirm('Please confirm') }, 'state-ok'),
  multiRound,
  asking('test_input_required_result_tampered_state', 'Has a state', { confirm: confirm('Please confirm') }),
  asking('test_input_required_result_capabilities', 'Asks what the client can be asked', {
    user_name: name('What is your name?'),
  }),
];

export const fixtureTools: readonly Tool[] = [
  answering('test_simple_text', 'Answers with text', {
    content: [text('This is a simple text response for testing.')],
  }),
  answering('test_image_content', 'Answers with an image', { content: [image] }),
  answering('test_audio_content', 'Answers with audio', {
    content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }],
  }),
  answering('test_embedded_resource', 'Answers with a resource', {
    content: [
      {
        type: 'resource',
        resource: {
          uri: 'test://embedded-resource',
          mimeType: 'text/plain',
          text: 'This is an embedded resource content.',
        },
      },
    ],
  }),
  answering('test_multiple_content_types', 'Answers with content of several types', {
    content: [
      text('Multiple content types test:'),
      image,
      {
        type: 'resource',
        resource: {
          uri: 'test://mixed-content-resource',
          mimeType: 'application/json',
          text: JSON.stringify({ test: 'data', value: 123 }),
        },
      },
    ],
  }),
  answering('test_error_handling', 'Always fails', {
    content: [text('This tool intentionally returns an error for testing')],
    isError: true,
  }),
  withProgress,
  withHeader,
  withSchema,
  answering(
    'test_missing_capability',
    'Needs a client that can sample',
    { content: [text('sampled')] },
    { requiresClient: { sampling: {} } },
  ),
  ...askingTools,
  answering('test_streaming_elicitation', 'Asks nothing of the client on its stream', { content: [text('done')] }),
  answering('test_logging_tool', 'Logs nothing to a client that did not ask', { content: [text('done')] }),
];

const user = (...contents: PromptMessages['messages'][number]['content'][]) =>
  ok({ messages: contents.map((content) => ({ role: 'user' as const, content })) });

const promptFacts = (name: string, description: string) => ({ name, title: name, description });

export const fixturePrompts: readonly Prompt[] = [
  definePrompt(anyone, {
    ...promptFacts('test_simple_prompt', 'One message'),
    arguments: nothing,
    run: () => user(text('This is a simple prompt for testing.')),
  }),
  definePrompt(anyone, {
    ...promptFacts('test_prompt_with_arguments', 'One message with its two arguments'),
    arguments: v.strictObject({
      arg1: v.pipe(v.string(), v.description('First test argument')),
      arg2: v.pipe(v.string(), v.description('Second test argument')),
    }),
    run: ({ arg1, arg2 }) => user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
    complete: { arg1: (value) => ok(['paris', 'park', 'party'].filter((name) => name.startsWith(value))) },
  }),
  definePrompt(anyone, {
    ...promptFacts('test_prompt_with_embedded_resource', 'A resource, and a message about it'),
    arguments: v.strictObject({ resourceUri: v.pipe(v.string(), v.description('URI of the resource to embed')) }),
    run: ({ resourceUri: uri }) =>
      user(
        {
          type: 'resource',
          resource: { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
        },
        text('Please process the embedded resource above.'),
      ),
  }),
  definePrompt(anyone, {
    ...promptFacts('test_prompt_with_image', 'An image, and a message about it'),
    arguments: nothing,
    run: () => user(image, text('Please analyze the image above.')),
  }),
  definePrompt(anyone, {
    ...promptFacts('test_input_required_result_prompt', 'Asks for its context'),
    arguments: nothing,
    run(_given, { ask }) {
      const asked = ask({ user_context: context('What context should the prompt use?') });
      return asked.ok ? user(text(JSON.stringify(asked.value))) : asked;
    },
  }),
];

export const fixtureResources: readonly Resource[] = [
  {
    uri: 'test://static-text',
    name: 'static-text',
    title: 'Static text',
    description: 'A text that never changes',
    mimeType: 'text/plain',
    read: () => ({ text: 'This is the content of the static text resource.' }),
  },
  {
    uri: 'test://static-binary',
    name: 'static-binary',
    title: 'Static image',
    description: 'An image that never changes',
    mimeType: 'image/png',
    read: () => ({ blob: PNG }),
  },
  {
    uri: 'test://template/123/data', // what the suite makes of a template; the server has none
    name: 'template-data',
    title: 'Data by id',
    description: 'What a template would give for the id 123',
    mimeType: 'application/json',
    read: () => ({ text: JSON.stringify({ id: '123', templateTest: true, data: 'Data for ID: 123' }) }),
  },
];

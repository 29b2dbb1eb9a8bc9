// The sample tool for programs, behind an API key, its rate limit, and the scope `read`. A model for your own tools.

import * as v from 'valibot';
import { sequence } from '../calls/guard.ts';
import { defineTool } from '../calls/tool.ts';
import { ok } from '../ground/result.ts';
import type { ToolDeps } from './folder/tool-file.ts';

const row = v.strictObject({ id: v.string(), title: v.string(), amount: v.number() });

const SAMPLE_ROWS: v.InferOutput<typeof row>[] = [
  { id: 'sample-1', title: 'First sample row', amount: 10 },
  { id: 'sample-2', title: 'Second sample row', amount: 20 },
];

export const getData = ({ guards }: ToolDeps) =>
  defineTool(sequence(guards.apiKey, guards.scopes('read')), {
    name: 'get_data',
    title: 'Get data',
    description: "Returns sample data of the API key's owner.",
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({}),
    output: v.strictObject({
      owner: v.pipe(v.string(), v.description("The user id of the key's owner.")),
      key: v.strictObject({ id: v.string(), name: v.string(), scopes: v.array(v.string()) }),
      data: v.array(row),
    }),
    run: (_input, { auth }) =>
      ok({
        owner: auth.subject,
        key: { id: auth.keyId, name: auth.keyName, scopes: [...auth.scopes] },
        data: SAMPLE_ROWS,
      }),
  });

// server.json, for the MCP registry: what its schema of 2025-12-11 demands of the fields that are used here, and that it
// says what the package is and does.

import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import PACKAGE from '../../package.json';
import SERVER from '../../server.json';
import { ROOT } from '../support/documents.ts';
import { VARIABLES } from '../support/tables.ts';

const version = v.pipe(v.string(), v.maxLength(255), v.regex(/^\d+\.\d+\.\d+$/));
const input = {
  name: v.string(),
  description: v.string(),
  format: v.optional(v.picklist(['string', 'number', 'boolean', 'filepath'])),
  default: v.optional(v.string()),
  isSecret: v.optional(v.boolean()),
  isRequired: v.optional(v.boolean()),
};
const transport = v.strictObject({
  type: v.literal('streamable-http'),
  url: v.pipe(v.string(), v.regex(/^https?:\/\/\S+$/)),
  headers: v.array(v.strictObject(input)),
});
const schema = v.strictObject({
  $schema: v.literal('https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'),
  name: v.pipe(v.string(), v.maxLength(200), v.regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/)),
  title: v.pipe(v.string(), v.minLength(1), v.maxLength(100)),
  description: v.pipe(v.string(), v.minLength(1), v.maxLength(100)),
  version,
  packages: v.array(
    v.strictObject({
      registryType: v.literal('npm'),
      identifier: v.string(),
      version,
      runtimeHint: v.string(),
      transport,
      environmentVariables: v.array(v.strictObject(input)),
    }),
  ),
});

test('it has the fields and forms of the schema', () => {
  expect(v.safeParse(schema, SERVER).issues).toBeUndefined();
  expect(v.is(schema, { ...SERVER, description: 'x'.repeat(101) })).toBe(false);
});

test('it names the package, its version and variables that exist; the registry wants its name in the package too', () => {
  const [npm] = SERVER.packages;
  expect(npm).toMatchObject({ identifier: PACKAGE.name, version: PACKAGE.version });
  expect(SERVER).toMatchObject({ name: PACKAGE.mcpName, version: PACKAGE.version });
  const variables = npm?.environmentVariables.map(({ name }) => name) ?? [];
  expect(variables.filter((name) => !(VARIABLES as readonly string[]).includes(name))).toEqual([]);
  const inUrl = [...(npm?.transport.url ?? '').matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  expect(inUrl.filter((name = '') => !variables.includes(name))).toEqual([]);
});

test('whatever is a credential is marked as a secret', () => {
  const { transport: http, environmentVariables } = SERVER.packages[0] ?? {
    transport: { headers: [] },
    environmentVariables: [],
  };
  const secret = [...http.headers, ...environmentVariables].filter((entry) => 'isSecret' in entry && entry.isSecret);
  expect(secret.map(({ name }) => name)).toEqual(['X-API-Key', 'Authorization', 'JWT_SECRET']);
});

test('the image bears the same name', () => {
  const dockerfile = readFileSync(join(ROOT, 'tests/recipes/Dockerfile'), 'utf8');
  expect(dockerfile).toContain(`io.modelcontextprotocol.server.name="${SERVER.name}"`);
});

// `keys import`: imports another system's keys, by their hashes. Validates every line before it writes the first, and
// skips known hashes, so that an interrupted import can be repeated.

import { createReadStream, statSync } from 'node:fs';
import * as v from 'valibot';
import { parserOf } from '../../calls/schema.ts';
import { limitOf, NO_CEILINGS, OWNER_KEYS_MAX, windowSecondsOf } from '../../ground/rate-limit.ts';
import { systemRandom } from '../../ground/runtime.ts';
import { reasonOf } from '../../ground/text.ts';
import { type ApiKeyRecord, isIdShaped, mintId, NEW_KEY } from '../../keys/record.ts';
import { keyRequestFields, metadataInput, quotaFields, rateLimitFields } from '../../tools/key-fields.ts';
import { isSubject } from '../../users/identity.ts';
import { command } from '../command.ts';
import { CommandError } from '../io.ts';
import { FILE, isDay, needed } from '../options.ts';
import { BY_COMMAND, withStore } from './database.ts';

/** Rows per transaction, which blocks other writers for milliseconds. */
const BATCH_ROWS = 200;
/** No valid line is longer: name and scopes are bounded. */
const LINE_CHARS_MAX = 20_000;
/** The most bytes of so many characters in UTF-8. */
const LINE_BYTES_MAX = 4 * LINE_CHARS_MAX;

const time = v.pipe(
  v.string(),
  v.check(
    (text) =>
      /^\d{4}-\d{2}-\d{2}T.*(Z|[+-]\d{2}:\d{2})$/.test(text) &&
      isDay(text.slice(0, 10)) &&
      !Number.isNaN(Date.parse(text)),
    'Expected a time like 2026-01-31T09:30:00Z',
  ),
);

const HASH_BYTES = 32;

/** Returns a SHA-256 as 64 lowercase hex digits, from any encoding that other systems use; null: it isn't one. */
function hexOf(hash: string): string | null {
  if (/^[0-9a-f]{64}$/i.test(hash)) return hash.toLowerCase();
  if (!/^[\w+/-]{43}=?$/.test(hash)) return null;
  try {
    const bytes = Uint8Array.fromBase64(hash.replaceAll('-', '+').replaceAll('_', '/'), { lastChunkHandling: 'loose' });
    return bytes.length === HASH_BYTES ? bytes.toHex() : null;
  } catch {
    return null;
  }
}

const { name, scopes } = keyRequestFields({ scopes: null, daysMax: null, limits: NO_CEILINGS });
const parseLine = parserOf(
  v.strictObject({
    userId: v.pipe(v.string(), v.check(isSubject, 'Expected 1 to 255 characters without controls')),
    name,
    keyHash: v.pipe(
      v.string(),
      v.check((hash) => hexOf(hash) !== null, 'Expected a SHA-256 as 64 hex digits, base64 or base64url'),
      v.transform((hash) => hexOf(hash) ?? ''),
    ),
    scopes,
    id: v.optional(v.pipe(v.string(), v.check(isIdShaped, 'Expected 32 lowercase hex digits'))),
    createdAt: v.optional(time),
    expiresAt: v.optional(v.nullable(time)),
    rateLimit: v.optional(rateLimitFields),
    quota: v.optional(quotaFields),
    metadata: v.optional(metadataInput('Data of your own.')),
    foreign: v.optional(v.boolean()),
  }),
);

export const verb = command({
  name: 'keys import',
  summary:
    'Adds keys by their SHA-256. A line is {"userId", "name", "keyHash", "scopes", "id"?, "createdAt"?, "expiresAt"?, "rateLimit"?, "quota"?, "metadata"?, "foreign"?}; hashes that are there are skipped.',
  argument: needed(FILE),
  async run({ argument: file, io }) {
    const nowMs = Date.now();
    // A pipe would be empty the second time.
    if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
      throw new CommandError('expected a file, which is read twice: no pipe and no folder');
    const total = await check(file, nowMs);
    await withStore(io, async ({ admin }) => {
      const progress = io.progressOf(total, 'read');
      let [read, added, known, foreign] = [0, 0, 0, 0];
      for await (const records of batchesOf(file, nowMs)) {
        const batch = await admin.importBatch(records, { ...BY_COMMAND, how: 'import' });
        read += records.length;
        added += batch.added;
        known += batch.known;
        foreign += records.filter(({ foreignHash }) => foreignHash !== null).length;
        progress(read);
      }
      io.say(`${added} imported, ${known} were there already`);
      if (foreign > 0) io.say('servers take keys of another form within the revocation bound');
      const left = read - added - known;
      if (left === 0) return;
      throw new CommandError(
        `${left} not imported: the owner has as many keys as he may, the id is another key's, or the key was deleted less than a day ago`,
      );
    });
  },
});

/** Validates the whole file, and returns the number of keys. Throws at the first bad line. */
async function check(file: string, nowMs: number): Promise<number> {
  const perOwner = new Map<string, number>();
  const hashes = new Set<string>();
  let total = 0;
  for await (const { userId, keyHash } of recordsOf(file, nowMs)) {
    total += 1;
    if (hashes.has(keyHash)) continue;
    hashes.add(keyHash);
    const count = (perOwner.get(userId) ?? 0) + 1;
    if (count > OWNER_KEYS_MAX) throw new CommandError(`more than ${OWNER_KEYS_MAX} keys of ${JSON.stringify(userId)}`);
    perOwner.set(userId, count);
  }
  return total;
}

async function* batchesOf(file: string, nowMs: number): AsyncGenerator<ApiKeyRecord[]> {
  let batch: ApiKeyRecord[] = [];
  for await (const record of recordsOf(file, nowMs)) {
    batch.push(record);
    if (batch.length < BATCH_ROWS) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function* recordsOf(file: string, nowMs: number): AsyncGenerator<ApiKeyRecord> {
  let number = 0;
  try {
    for await (const line of linesOf(file)) {
      number += 1;
      const text = decoded(line, number).trim(); // without a byte order mark, too
      if (text !== '') yield recordOf(text, number, nowMs);
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`the file can't be read: ${reasonOf(error)}`);
  }
}

/** Yields lines with a character per byte, to be decoded one by one. Splits a line that is too long, still too long. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let left = '';
  for await (const chunk of createReadStream(file, 'latin1') as AsyncIterable<string>) {
    const lines = (left + chunk).split('\n');
    left = lines.pop() ?? '';
    yield* lines;
    if (left.length <= LINE_BYTES_MAX) continue;
    yield left;
    left = '';
  }
  yield left;
}

function decoded(line: string, number: number): string {
  if (line.length > LINE_BYTES_MAX) throw noObject(number);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(line, 'latin1'));
  } catch {
    throw new CommandError(`line ${number}: expected UTF-8`);
  }
}

function recordOf(line: string, number: number, nowMs: number): ApiKeyRecord {
  const parsed = parseLine(jsonOf(line, number));
  if (!parsed.ok) {
    const [issue] = parsed.error.issues;
    throw new CommandError(`line ${number}: ${issue?.path ? `${issue.path}: ` : ''}${issue?.message}`);
  }
  const { id, createdAt, expiresAt, rateLimit, quota = null, metadata = null, foreign = false, ...key } = parsed.value;
  return {
    ...NEW_KEY,
    ...key,
    quota,
    metadata,
    foreignHash: foreign ? key.keyHash : null,
    rateLimit: rateLimit === undefined ? null : limitOf(rateLimit.requests, windowSecondsOf(rateLimit.window) ?? 0),
    id: id ?? mintId(systemRandom),
    createdAtMs: createdAt === undefined ? nowMs : Date.parse(createdAt),
    expiresAtMs: expiresAt == null ? null : Date.parse(expiresAt),
  };
}

function jsonOf(line: string, number: number): unknown {
  try {
    if (line.length <= LINE_CHARS_MAX) return JSON.parse(line);
  } catch {
    // reported below, without the parser's message, which quotes the line
  }
  throw noObject(number);
}

const noObject = (number: number) => new CommandError(`line ${number}: expected one JSON object`);

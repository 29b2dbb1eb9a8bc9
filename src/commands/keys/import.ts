// `keys import`: imports another system's keys, by their hashes. Validates every line before it writes the first, and
// skips known hashes, so that an interrupted import can be repeated.

import { createReadStream, createWriteStream, statSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import * as v from 'valibot';
import { parserOf } from '../../calls/schema.ts';
import { createImport, type Imported } from '../../doors/admin/index.ts';
import { NO_CEILINGS, OWNER_KEYS_MAX, readLimit } from '../../ground/rate-limit.ts';
import { systemRandom } from '../../ground/runtime.ts';
import { canonicalUrl } from '../../ground/server-address.ts';
import { isObject, isSubject, reasonOf } from '../../ground/text.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import { type ApiKeyRecord, isIdShaped, mintId, NEW_KEY } from '../../keys/record.ts';
import { keyRequestFields, metadataInput, quotaInput, rateLimitInput } from '../../tools/key-fields.ts';
import { command } from '../command.ts';
import { CommandError, type Io } from '../io.ts';
import { FILE, isDay, needed } from '../options.ts';
import { byCommand, withStore } from './database.ts';
import { withPrivateFolder } from './private-folder.ts';

/** Rows per transaction, which blocks other writers for milliseconds. */
const BATCH_ROWS = 200;
/** No valid line is longer: name and scopes are bounded. */
const LINE_CHARS_MAX = 20_000;
/** The most bytes of so many characters in UTF-8. */
const LINE_BYTES_MAX = 4 * LINE_CHARS_MAX;

const timeMs = v.pipe(
  v.string(),
  v.check(
    (text) =>
      /^\d{4}-\d{2}-\d{2}T.*(Z|[+-]\d{2}:\d{2})$/.test(text) &&
      isDay(text.slice(0, 10)) &&
      !Number.isNaN(Date.parse(text)),
    'Expected a time like 2026-01-31T09:30:00Z',
  ),
  v.transform(Date.parse),
);

/** Returns whether a server's URL is as keys store it (keys/audience.ts). */
const isCanonical = (url: string): boolean => /^https?:/.test(url) && URL.canParse(url) && canonicalUrl(url) === url;

/** Returns a SHA-256 as 64 lowercase hex digits, from any encoding that other systems use; null: it isn't one. */
function hexOf(hash: string): string | null {
  if (/^[0-9a-f]{64}$/i.test(hash)) return hash.toLowerCase();
  if (!/^[\w+/-]{43}=?$/.test(hash)) return null; // 43 times six bits are 32 bytes
  const base64 = hash.replaceAll('-', '+').replaceAll('_', '/');
  return Uint8Array.fromBase64(base64, { lastChunkHandling: 'loose' }).toHex();
}

const { name, scopes } = keyRequestFields({ scopes: null, daysMax: null, limits: NO_CEILINGS });
const parseLine = parserOf(
  v.strictObject({
    userId: v.pipe(v.string(), v.check(isSubject, 'Expected 1 to 255 characters without controls')),
    name,
    keyHash: v.pipe(
      v.string(),
      v.transform(hexOf),
      v.string('Expected a SHA-256 as 64 hex digits, base64 or base64url'),
    ),
    scopes,
    id: v.optional(v.pipe(v.string(), v.check(isIdShaped, 'Expected 32 lowercase hex digits'))),
    createdAt: v.optional(timeMs),
    expiresAt: v.optional(v.nullable(timeMs)),
    rateLimit: v.optional(rateLimitInput()),
    quota: v.exactOptional(quotaInput()),
    metadata: v.exactOptional(metadataInput('Data of your own.')),
    foreign: v.optional(v.boolean()),
    resource: v.exactOptional(
      v.pipe(
        v.string(),
        v.check((name) => name === THIS_SERVER || isCanonical(name), 'Expected self, or a server as a URL'),
      ),
    ),
  }),
);

const ON_STDIN = '-';

export const verb = command({
  name: 'keys import',
  summary:
    'Adds keys by their SHA-256, as keys export writes them; with - from stdin. A line is {"userId", "name", "keyHash", "scopes", "id"?, "createdAt"?, "expiresAt"?, "rateLimit"?, "quota"?, "metadata"?, "resource"?, "foreign"?}; hashes that are there are skipped.',
  argument: needed(FILE),
  async run({ argument: file, io }) {
    if (file !== ON_STDIN) return importFile(file, io);
    await withPrivateFolder(io, async (folder) => {
      const copy = join(folder, 'keys.jsonl'); // a pipe would be empty the second time
      await pipeline(io.stdin, createWriteStream(copy, { mode: 0o600 }));
      await importFile(copy, io);
    });
  },
});

async function importFile(file: string, io: Io): Promise<void> {
  const nowMs = Date.now();
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
    throw new CommandError('expected a file, which is read twice: no pipe and no folder');
  const total = await check(file, nowMs);
  const counts: Record<Imported, number> = { added: 0, known: 0, 'now foreign': 0, 'id taken': 0, 'no place': 0 };
  const left = { 'id taken': [] as number[], 'no place': [] as number[] };
  let [read, foreign] = [0, 0];
  await withStore(io, async ({ db }, { ownerDefaults }) => {
    const importKeys = createImport(db, ownerDefaults.keysMax);
    const progress = io.progressOf('read');
    for await (const batch of batchesOf(file, nowMs)) {
      const outcomes = await importKeys(
        batch.map(({ record }) => record),
        { ...byCommand(io), how: 'import' },
      );
      const isForeign = new Set(batch.flatMap(({ record }) => (record.foreignHash === null ? [] : record.keyHash)));
      for (const [at, { record, number }] of batch.entries()) {
        const outcome = outcomes[at] ?? 'known';
        counts[outcome] += 1;
        if (outcome === 'added' && isForeign.has(record.keyHash)) foreign += 1; // maybe by a later line
        if (outcome === 'id taken' || outcome === 'no place') left[outcome].push(number);
      }
      read += batch.length;
      progress(read, total);
    }
  });
  report(counts, foreign, io);
  const notImported = [
    ...linesSaid(left['no place'], 'the owner has as many keys as he may'),
    ...linesSaid(left['id taken'], "the id is another key's"),
  ];
  if (notImported.length > 0) throw new CommandError(`not imported: ${notImported.join('; ')}`);
}

function report(counts: Readonly<Record<Imported, number>>, foreign: number, { say }: Io): void {
  const { added, known, 'now foreign': set } = counts;
  say(`${added} imported, ${known + set} were there already`);
  if (added > foreign)
    say(
      `${added - foreign} of the new keys are accepted only in this server's form (<prefix>_live_ or _test_ and 64 hex digits); if yours have another, import them again with "foreign": true`,
    );
  if (set > 0) say(`${set} that were there are accepted in another form, too`);
  if (foreign + set > 0) say('servers take keys of another form within the revocation bound');
}

const LINES_SHOWN_MAX = 20;

function linesSaid(numbers: readonly number[], reason: string): readonly string[] {
  if (numbers.length === 0) return [];
  const shown = numbers.slice(0, LINES_SHOWN_MAX).join(', ');
  const more = numbers.length > LINES_SHOWN_MAX ? ` and ${numbers.length - LINES_SHOWN_MAX} more` : '';
  return [`${numbers.length === 1 ? 'line' : 'lines'} ${shown}${more}, because ${reason}`];
}

/** Validates the whole file, and returns the number of keys. Throws at the first bad line. */
async function check(file: string, nowMs: number): Promise<number> {
  const perOwner = new Map<string, number>();
  const lines = new Map<string, number>();
  const owners: string[] = [];
  let total = 0;
  for await (const { record, number } of recordsOf(file, nowMs)) {
    const { userId, keyHash } = record;
    total += 1;
    const first = lines.get(keyHash);
    if (first !== undefined) {
      if (owners[first] === userId) continue;
      throw new CommandError(`line ${number}: the key of line ${first}, for another owner`);
    }
    lines.set(keyHash, number);
    owners[number] = userId;
    const count = (perOwner.get(userId) ?? 0) + 1;
    if (count > OWNER_KEYS_MAX)
      throw new CommandError(`line ${number}: more than ${OWNER_KEYS_MAX} keys of ${JSON.stringify(userId)}`);
    perOwner.set(userId, count);
  }
  return total;
}

type Line = { readonly record: ApiKeyRecord; readonly number: number };

async function* batchesOf(file: string, nowMs: number): AsyncGenerator<Line[]> {
  let batch: Line[] = [];
  for await (const line of recordsOf(file, nowMs)) {
    batch.push(line);
    if (batch.length < BATCH_ROWS) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function* recordsOf(file: string, nowMs: number): AsyncGenerator<Line> {
  let number = 0;
  try {
    for await (const line of linesOf(file)) {
      number += 1;
      const text = decoded(line, number).trim(); // without a byte order mark, too
      if (text !== '') yield { record: recordOf(text, number, nowMs), number };
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`the file can't be read: ${reasonOf(error)}`);
  }
}

/** Yields lines with a character per byte, to be decoded one by one. Parts of a line that is too long are too long, too. */
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
  const { id, createdAt, expiresAt, rateLimit, foreign, ...key } = parsed.value;
  return {
    ...NEW_KEY,
    ...key,
    id: id ?? mintId(systemRandom),
    createdAtMs: createdAt ?? nowMs,
    expiresAtMs: expiresAt ?? null,
    rateLimit: rateLimit === undefined ? null : readLimit(rateLimit),
    foreignHash: foreign ? key.keyHash : null,
  };
}

function jsonOf(line: string, number: number): unknown {
  try {
    const parsed = line.length <= LINE_CHARS_MAX ? JSON.parse(line) : null;
    if (isObject(parsed)) return parsed;
  } catch {
    // reported below, without the parser's message, which quotes the line
  }
  throw noObject(number);
}

const noObject = (number: number) => new CommandError(`line ${number}: expected one JSON object`);

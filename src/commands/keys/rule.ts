// `keys rule`: lets tokens of workloads act as a key (src/doors/rules/). Only operators make rules: no tool and no page.

import { text as textOf } from 'node:stream/consumers';
import { loadForOperators } from '../../doors/rules/index.ts';
import type { Result } from '../../ground/result.ts';
import { systemRandom } from '../../ground/runtime.ts';
import { reasonOf } from '../../ground/text.ts';
import { publicUrl } from '../../ground/urls.ts';
import { type Command, command, helpOf, runNamed } from '../command.ts';
import { CommandError, UsageError } from '../io.ts';
import { flag, ID, kind, many, needed, optional, SCOPE } from '../options.ts';
import { byCommand, rulesIn, sha256, withStore, withStoreToRead } from './database.ts';

/** Accepts what the door reads. */
const text = (name: string, expected: string) => kind(name, expected, (given) => given || null);

/** Accepts what PUBLIC_URL and OAUTH_RESOURCES do: a key is bound to no other server. */
const RESOURCE = kind('URL', 'an http or https URL without query, user or fragment', (given) =>
  publicUrl(given) === null ? null : given,
);

function unreadable(error: unknown): never {
  throw new CommandError(`--jwks: the file can't be read: ${reasonOf(error)}`);
}

const add = command({
  name: 'keys rule add',
  summary:
    'Lets tokens of this issuer and subject act as the key, and prints the id of the rule. S may end in * behind : or /. --audience: by default this server. --claim: NAME may be a JSON Pointer, like /kubernetes.io/namespace. --jwks: the key set of all rules of this issuer.',
  options: {
    issuer: needed(text('URL', 'an https URL')),
    subject: needed(text('S', 'a subject, or its beginning and a *')),
    audience: many(text('A', 'an audience')),
    claim: many(text('NAME=VALUE', 'NAME=VALUE')),
    scope: many(SCOPE),
    jwks: optional(text('FILE|URL|fetch', 'a file, an https URL, or fetch')),
  },
  argument: needed(ID),
  async run({ options: { jwks, ...given }, argument: keyId, io }) {
    const { addRule, readKeySetSource, readTerms } = await loadForOperators();
    const terms = taken(readTerms(given));
    const keySet = jwks === undefined ? undefined : taken(await readKeySetSource(jwks, terms.issuer).catch(unreadable));
    await withStore(io, async (store, config) => {
      const by = { random: systemRandom, sha256, origin: byCommand(io), warn: io.say };
      const added = await addRule({ keyId, ...terms, keySet }, { ...rulesIn(store, config, io), ...by });
      if (!added.ok) throw new CommandError(added.error);
      const { id, owner, audiences } = added.value;
      io.say(
        `tokens of ${terms.issuer} with the subject ${terms.subject} act as key ${keyId} of ${JSON.stringify(owner)}`,
      );
      io.say(`ask the platform for a token with the audience ${audiences.join(' or ')}`);
      await io.write(`${id}\n`);
    });
  },
});

function taken<T>(read: Result<T, string>): T {
  if (read.ok) return read.value;
  throw new UsageError(read.error);
}

const list = command({
  name: 'keys rule list',
  summary: 'Lists the rules of a key, or all.',
  options: { json: flag },
  argument: optional(ID),
  async run({ options: { json }, argument: keyId, io }) {
    const { createRuleStore, RULE_HEADS, ruleCells, ruleObject } = await loadForOperators();
    await withStoreToRead(io, async ({ db }) => {
      const rules = (await createRuleStore(db).list(Date.now(), keyId ?? null)).map(ruleObject);
      if (json) return io.writeJson(rules);
      if (rules.length === 0) return io.say('there are no rules');
      await io.writeTable([
        ['ID', 'KEY', 'OWNER', ...RULE_HEADS],
        ...rules.map((rule) => [rule.id, rule.keyId, rule.owner ?? '-', ...ruleCells(rule)]),
      ]);
    });
  },
});

const remove = command({
  name: 'keys rule remove',
  summary: 'Removes a rule: its tokens are refused within REVOCATION_LAG_MAX_MS, and the children made with them end.',
  argument: needed(ID),
  async run({ argument: id, io }) {
    const { createRuleStore } = await loadForOperators();
    await withStore(io, async ({ db }) => {
      const rules = createRuleStore(db);
      const isThere = (await rules.list(Date.now())).some((rule) => rule.id === id);
      if (!isThere) throw new CommandError('there is no rule of this id');
      await rules.remove(id, byCommand(io));
      io.say('removed');
    });
  },
});

const test = command({
  name: 'keys rule test',
  summary:
    'Says each check of a token on stdin, and who it would be. Exits 0 if it would be let in. --resource: the server that it is presented for.',
  options: { resource: optional(RESOURCE), json: flag },
  async run({ options: { resource = null, json }, io }) {
    const { checkCells, testToken, whoseWords } = await loadForOperators();
    const token = (await textOf(io.stdin)).trim();
    await withStoreToRead(io, async (store, config) => {
      const tested = await testToken(token, { ...rulesIn(store, config, io), resource });
      if (json) await io.writeJson([tested]);
      else await io.writeTable(tested.checks.map(checkCells));
      io.say(whoseWords(tested));
      if (tested.as !== 'rule') throw new CommandError('it would not be let in as a key');
    });
  },
});

const VERBS = [add, list, remove, test];

export const verb: Command = {
  usage: VERBS.map(({ usage }) => usage).join('\n'),
  summary: 'Lets tokens of workloads act as a key.',
  run: runNamed({ add: () => add, list: () => list, remove: () => remove, test: () => test }, 'verb', (io) =>
    io.write(VERBS.map(helpOf).join('\n')),
  ),
};

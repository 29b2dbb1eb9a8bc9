// What a rule may say, and whether some token could fit two: against a search of all tokens over a small alphabet.
// Looks inside: no request could try so many.

import { Database } from 'bun:sqlite';
import { describe, expect, test } from 'bun:test';
import {
  audienceFault,
  fitsClaim,
  fitsSubject,
  nameFault,
  type RuleTerms,
  readClaim,
  subjectFault,
} from '../../../src/doors/rules/rule.ts';
import { canMeet } from '../../../src/doors/rules/store.ts';

const ISSUER = 'https://issuer.example';
const GITHUB = 'https://token.actions.githubusercontent.com';

describe('the subject of a rule', () => {
  test.each([
    ['a', true],
    ['repo:acme/app:ref:refs/heads/main', true],
    ['repo:acme/*', true],
    ['repo:acme@123/*', true],
    ['repo:acme/app:*', true],
    ['system:serviceaccount:prod:*', true],
    ['spiffe://acme/ns/*', true],
    ['https://accounts.example/*', true],
    ['', false],
    ['a\0b', false],
    ['*', false],
    ['repo:*', false],
    ['repo:acme/app*', false],
    ['repo:*/app', false],
    ['repo:acme/**', false],
    ['repo::*', false],
    ['repo:acme//*', false],
    [':acme:*', false],
    ['://acme/app/*', false],
    ['system:serviceaccount:*', false],
    ['spiffe://acme/*', false],
    ['spiffe:///ns/app/*', false],
  ])('%p may be written: %p', (subject, may) => {
    expect(subjectFault(subject) === null).toBe(may);
  });

  test('has 512 characters at most', () => {
    expect(subjectFault('x'.repeat(512))).toBeNull();
    expect(subjectFault(`a:b:${'x'.repeat(506)}:*`)).toBeNull();
    expect(subjectFault('x'.repeat(513))).not.toBeNull();
  });

  test.each([
    ['repo:acme/*', 'repo:acme/app', true],
    ['repo:acme/*', 'repo:acme/', false],
    ['repo:acme/*', 'repo:acme-evil/app', false],
    ['repo:acme/*', 'Repo:acme/app', false],
    ['repo:acme/app', 'repo:acme/app', true],
    ['repo:acme/app', 'repo:acme/app2', false],
    ['*', 'anybody', false], // typed into the database
    ['repo:*', 'repo:acme/app', false],
  ])('%p fits %p: %p', (subject, sub, fits) => {
    expect(fitsSubject(subject, sub)).toBe(fits);
  });
});

test.each([
  ['https://tools.example/mcp', ISSUER, true],
  ['anything', ISSUER, true],
  ['', ISSUER, false],
  ['a\u0007b', ISSUER, false],
  [ISSUER, ISSUER, false],
  [`${ISSUER}/`, ISSUER, false],
  ['https://github.com/acme', GITHUB, false],
  ['https://github.com/acme', `${GITHUB}/ent`, false],
  ['https://github.com/acme', ISSUER, true],
  ['https://tools.example/mcp', GITHUB, true],
])('%s of %s may be asked for: %p', (audience, issuer, may) => {
  expect(audienceFault(audience, issuer) === null).toBe(may);
});

test.each([
  ['a=b', 'a=b'],
  ['a=b=c', 'a=b=c'],
  ['/a=1', 'a=1'],
  ['/a~1b=1', 'a/b=1'],
  ['/a~0b=1', 'a~b=1'],
  ['/~1a=1', '/~1a=1'],
  ['/kubernetes.io/namespace=prod', '/kubernetes.io/namespace=prod'],
  ['=b', null],
  ['a', null],
  ['ab', null],
  ['a=', null],
  ['a\u0007=b', null],
  ['a=b\u0007', null],
  ['/a~2=1', null],
  ['/a~=1', null],
])('the claim %p is stored as %p', (text, claim) => {
  const read = readClaim(text);
  expect(read.ok ? read.value : null).toBe(claim);
});

test("a claim's name has 200 characters at most, its value 500", () => {
  expect(readClaim(`${'n'.repeat(200)}=${'v'.repeat(500)}`).ok).toBe(true);
  expect(readClaim(`${'n'.repeat(201)}=1`).ok).toBe(false);
  expect(readClaim(`n=${'v'.repeat(501)}`).ok).toBe(false);
});

test.each<[string, string, boolean]>([
  ['a=b', '{"a":"b"}', true],
  ['a=1', '{"a":1}', true],
  ['a=1', '{"a":"1"}', true],
  ['a=1', '{"a":1.0}', true],
  ['a=1.5', '{"a":1.5}', false],
  ['a=9007199254740993', '{"a":9007199254740993}', false],
  ['a=9007199254740992', '{"a":9007199254740993}', false],
  ['a=1e+21', '{"a":1e21}', false],
  ['a=true', '{"a":true}', true],
  ['a=null', '{"a":null}', false],
  ['a=b', '{"a":["b"]}', false],
  ['a=[object Object]', '{"a":{}}', false],
  ['a=b', '{}', false],
  ['constructor=x', '{}', false],
  ['__proto__=x', '{"__proto__":"x"}', true],
  ['/k/n=prod', '{"k":{"n":"prod"}}', true],
  ['/k/toString=x', '{"k":{}}', false],
  ['/k/0=a', '{"k":["a"]}', true],
  ['/k/00=a', '{"k":["a"]}', false],
  ['/k/length=1', '{"k":["a"]}', false],
  ['/k/length=1', '{"k":"a"}', false],
  ['/k/0=a', '{"k":"a"}', false],
  ['/a~2=b', '{"a~2":"b"}', false], // typed into the database
  ['a/b=1', '{"a":{"b":1}}', false],
  ['a.b=1', '{"a":{"b":1}}', false],
])('the claim %p fits %p: %p', (claim, payload, fits) => {
  expect(fitsClaim(claim, JSON.parse(payload))).toBe(fits);
});

test.each([
  ['repo:acme/app:ref:x', [], GITHUB, false],
  ['repo:acme@123/app@4:ref:x', [], GITHUB, true],
  ['repo:acme@/app:ref:x', [], GITHUB, false],
  ['repo:acme/app@4:ref:x', [], GITHUB, false],
  ['repo:acme/app:ref:x', ['repository_id=1'], GITHUB, true],
  ['repo:acme/app:ref:x', ['repository_owner_id=1'], `${GITHUB}/acme`, true],
  ['repo:acme/app:ref:x', ['ref=1'], `${GITHUB}/acme`, false],
  ['project_path:acme/app', [], 'https://gitlab.com', false],
  ['project_path:acme/app', ['project_id=1'], 'https://gitlab.com', true],
  ['project_path:acme/app', ['namespace_id=1'], 'https://gitlab.com', true],
  ['project_path:acme/app', [], 'https://gitlab.example', true],
])('%s with %j of %s is safe: %p', (subject, claims, issuer, may) => {
  expect(nameFault({ issuer, subject, claims, audiences: [] }) === null).toBe(may);
});

const ALPHABET = [...'a:/'];

/** All texts of up to so many letters. */
function texts(chars: number): string[] {
  if (chars === 0) return [''];
  const shorter = texts(chars - 1);
  return [...new Set([...shorter, ...shorter.flatMap((text) => ALPHABET.map((letter) => text + letter))])];
}

/** Returns whether two rules meet, as the database decides it. */
const meet = (() => {
  const terms = (at: number) =>
    `(SELECT ?${at} AS issuer, ?${at + 1} AS subject, ?${at + 2} AS audiences, ?${at + 3} AS claims)`;
  const statement = new Database().query(`SELECT ${canMeet('r', 'o')} AS meet FROM ${terms(1)} r, ${terms(5)} o`);
  const args = ({ issuer, subject, audiences, claims }: RuleTerms) =>
    [issuer, subject, JSON.stringify(audiences), JSON.stringify(claims)] as const;
  return (one: RuleTerms, other: RuleTerms): boolean => {
    const { meet } = statement.get(...args(one), ...args(other)) as { meet: number };
    return meet === 1;
  };
})();

test('two rules meet if and only if some token for one audience fits both', () => {
  const subjects = texts(5).filter((text) => text !== '');
  const patterns = [...subjects, ...subjects.map((text) => `${text}*`)].filter((text) => subjectFault(text) === null);
  const some = patterns.filter((text, index) => index % 7 === 0 || text.endsWith('*'));
  const long = texts(6).filter((text) => text !== '');
  const fitting = new Map(some.map((one) => [one, new Set(long.filter((sub) => fitsSubject(one, sub)))]));
  const audiences = [['x'], ['y'], ['x', 'y']];
  const claims = [[], ['c=1'], ['c=2'], ['d=1'], ['c=1', 'd=2']];
  const tokens = ['x', 'y'].flatMap((aud) =>
    [1, 2, undefined].flatMap((c) => [1, 2, undefined].map((d) => ({ aud, c, d }))),
  );
  const rules = audiences.flatMap((audience) => claims.map((claim) => ({ audiences: audience, claims: claim })));
  const fits = (rule: Pick<RuleTerms, 'audiences' | 'claims'>, token: (typeof tokens)[number]) =>
    rule.audiences.includes(token.aud) && rule.claims.every((claim) => fitsClaim(claim, token));
  let wrong = 0;
  for (const one of some) {
    for (const other of some) {
      const isCommon = [...(fitting.get(one) ?? [])].some((sub) => fitting.get(other)?.has(sub));
      const terms = { issuer: ISSUER, audiences: ['x'], claims: [] };
      if (meet({ ...terms, subject: one }, { ...terms, subject: other }) !== isCommon) wrong += 1;
    }
  }
  for (const one of rules) {
    for (const other of rules) {
      const isCommon = tokens.some((token) => fits(one, token) && fits(other, token));
      const terms = { issuer: ISSUER, subject: 'a' };
      if (meet({ ...terms, ...one }, { ...terms, ...other }) !== isCommon) wrong += 1;
    }
  }
  expect(some.length).toBeGreaterThan(20);
  expect(wrong).toBe(0);
});

test('a default audience counts as meeting any other, and rules of two issuers never meet', () => {
  const terms = { issuer: ISSUER, subject: 'a', claims: [] };
  expect(meet({ ...terms, audiences: [] }, { ...terms, audiences: ['x'] })).toBe(true);
  expect(meet({ ...terms, audiences: ['x'] }, { ...terms, audiences: ['x'], issuer: GITHUB })).toBe(false);
});

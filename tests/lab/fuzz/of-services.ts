// What other services send: they ask for a key, listen to changes, and programs exchange a key for a child.

import fc from 'fast-check';
import { ACCESS_TOKEN, EXCHANGE } from '../../support/children.ts';
import { bytesOf, FORM_TYPE } from './json.ts';
import type { Draft } from './messages.ts';
import type { PlantedSecrets } from './planted-secrets.ts';

const form = (target: string, fields: readonly (readonly string[])[]): Draft => ({
  method: 'POST',
  target,
  headers: [FORM_TYPE],
  body: undefined,
  text: bytesOf(fields.map((pair) => pair.join('=')).join('&')),
});

/** Forms of services, most with something wrong about them. */
export function ofServices(planted: PlantedSecrets): fc.Arbitrary<Draft> {
  const { service, keys, badKeys, tokens, keyIds } = planted;
  const secret = fc.constantFrom(service, ...keys, ...badKeys, ...tokens);
  const value = fc.oneof(secret, fc.constantFrom('', '%00', '%ff', '%'), fc.string());
  const other = fc.tuple(
    fc.constantFrom('token_type_hint', 'client_id', 'client_secret', 'lease', 'cost', 'used', 'resource', 'x', '%'),
    value,
  );
  const some = fc.array(other, { maxLength: 2 });
  const caller = [
    ['client_id', keyIds[3] ?? ''],
    ['client_secret', service],
  ];
  const asked = fc
    .tuple(secret, fc.subarray([['lease', ''], ['cost', '2'], ['used', 'x:1'], ...caller], { minLength: 1 }), some)
    .map(([token, fields, more]) => form('/introspect', [['token', token], ...caller, ...fields, ...more]));
  const anything = fc
    .array(fc.oneof(fc.tuple(fc.constant('token'), value), other), { maxLength: 4 })
    .map((fields) => form('/introspect', fields));
  const listened = fc
    .tuple(fc.constantFrom('', 'x', '%00', 'a'.repeat(201)), fc.constantFrom('0', '1', '-1', '99999', 'x'), some)
    .map(([cursor, wait, more]) => form('/changes', [...caller, ['cursor', cursor], ['wait_ms', wait], ...more]));
  const exchanged = fc
    .tuple(
      fc.oneof(fc.constant(service), secret),
      fc.constantFrom('read', 'introspect', 'delegate', 'x', ''),
      fc.constantFrom<string[][]>([], [['expires_in', '60']], [['expires_in', '59']], [['audience', 'x']]),
      some,
    )
    .map(([token, scope, more, odd]) =>
      form('/token', [
        ['grant_type', EXCHANGE],
        ['subject_token', token],
        ['subject_token_type', ACCESS_TOKEN],
        ['scope', scope],
        ...more,
        ...odd,
      ]),
    );
  return fc.oneof(asked, anything, listened, exchanged);
}

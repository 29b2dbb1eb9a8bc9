// Where a browser goes with a redirect that was admitted: to a host of the list, and to no other path than was compared.

import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { isAdmitted } from '../../../src/config/redirects.ts';
import { parseConfig } from '../../../src/start/package/index.ts';
import { everything } from '../../support/everything.ts';

const HOSTED = ['https://client.example/back', 'https://chat.example/oauth/*', 'app.example://back'];
const config = parseConfig({ OAUTH_REDIRECTS: ['loopback', ...HOSTED].join(' ') });
const HOSTS = ['127.0.0.1', 'localhost', '[::1]', 'client.example', 'chat.example', 'back'];

const parts = [
  ...[
    'http:',
    'https:',
    'app.example:',
    '//',
    '/',
    '\\',
    '?',
    '#',
    '@',
    ':',
    ';',
    '.',
    '..',
    '*',
    '&',
    '=',
    '%',
    '\t',
    '\n',
  ],
  ...['%2e', '%2E', '%2f', '%5c', '%00', '%0d%0a', '\u3002', '\uff0e', '\u00ad', 'a', 'é', '80', '443', '0', '65536'],
  ...['localhost', '127.0.0.1', '[::1]', '127.1', '0x7f.1', 'evil.example', 'client.example', 'chat.example', 'oauth'],
  ...['http://localhost', 'http://127.0.0.1:', 'http://[::1]/', ...HOSTED, 'https://chat.example/oauth/', 'user:pass@'],
];

test('a redirect that is admitted leads where it seems to', () => {
  const redirects = config.ok ? config.value.connect?.redirects : null;
  if (redirects == null) throw new Error('no configuration');
  let admitted = 0;
  const uris = fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 7 }).map((made) => made.join(''));
  fc.assert(
    fc.property(uris, (uri) => {
      if (!isAdmitted(redirects, uri)) return;
      admitted += 1;
      const { host, hostname, username, password, hash, href } = new URL(uri);
      expect(HOSTS).toContain(hostname);
      expect([username, password, hash]).toEqual(['', '', '']);
      // As the parser of browsers writes it, but for ports that are left out, or written otherwise.
      const [, scheme, , rest = ''] = /^([a-z.]+:)\/\/([^/?]*)(.*)$/.exec(uri) ?? [];
      expect(href).toBe(`${scheme}//${host}${scheme !== 'app.example:' && !rest.startsWith('/') ? '/' : ''}${rest}`);
    }),
    { seed: 1, numRuns: everything ? 100_000 : 5000 },
  );
  expect(admitted).toBeGreaterThan(50);
});

// What services, proxies, scrapers and browsers are told.

import type { Mutations } from './list.ts';

export const API: readonly Mutations[] = [
  {
    file: 'src/api/introspect.ts',
    tests: ['./tests/api/introspect.test.ts', './tests/keys/blocks.test.ts'],
    changes: [
      ['introspection: a key that has ended meanwhile is active', 'recheck([caller, asked])', 'recheck([caller])'],
      ['introspection: with the id of another key a key passes', 'client.id === keyId', 'client.id !== null'],
    ],
  },
  {
    file: 'src/api/verify.ts',
    tests: ['./tests/api/verify.test.ts'],
    changes: [
      [
        'proxies: scopes of the header replace those of the query',
        "[...parameters.getAll('scope'), header]",
        "[header || parameters.getAll('scope').join(' ')]",
      ],
      ['proxies: after a refusal the identity is what the client says', 'identify(response.headers, null);', ''],
    ],
  },
  {
    file: 'src/api/metrics/route.ts',
    tests: ['./tests/watch/metrics.test.ts'],
    changes: [
      ['metrics: any token reads them', "bearer === null || sha256(bearer, 'hex') !== tokenHash", 'bearer === null'],
    ],
  },
  {
    file: 'src/pages/document.ts',
    tests: ['./tests/browser/page/page.test.ts'],
    changes: [['pages: what one is told ends its script', ".replaceAll('<', '\\\\u003c')", '']],
  },
  {
    file: 'src/config/token-settings.ts',
    tests: ['./tests/browser/page/page.test.ts'],
    changes: [
      ['pages: anybody reads settings', "commandOf(config, running, () => '…')", 'mintingCommand(config, running)'],
    ],
  },
  {
    file: 'src/pages/widgets/widget.js',
    tests: ['./tests/browser/widgets/bridge.test.ts'],
    changes: [['widgets: any window is the host', 'source !== host || ', '']],
  },
  {
    file: 'src/pages/keys/sign-in.js',
    tests: ['./tests/browser/page/sign-in.test.ts'],
    changes: [['page: the response to another sign-in is taken', " || query.get('state') !== kept.state", '']],
  },
];

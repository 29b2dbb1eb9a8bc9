// Codes, devices and redirects: who gets a key, and once.

import type { Mutations } from './list.ts';

export const SIGNIN: readonly Mutations[] = [
  {
    file: 'src/store/codes.ts',
    tests: [
      './tests/signin/processes.test.ts',
      './tests/signin/handing-out.test.ts',
      './tests/signin/click.test.ts',
      './tests/signin/device.test.ts',
    ],
    changes: [
      [
        'codes: one is redeemed twice',
        "const IS_OPEN = 'hash = ?1 AND taken_by IS NULL'",
        "const IS_OPEN = 'hash = ?1'",
      ],
      [
        'codes: a key that was revoked between look and redeem is handed out',
        ' AND EXISTS (SELECT 1 FROM api_keys WHERE id = ?3 AND active = 1)',
        '',
      ],
      ['codes: a key is made for a code that was redeemed', '} AND taken_by IS NULL)', '})'],
      [
        'codes: a key is made for an owner who was blocked',
        'FROM blocked_owners WHERE owner',
        'FROM blocked_owners WHERE false AND owner',
      ],
      ['devices: a decision is replaced by another', 'AND decision IS NULL AND', 'AND'],
      ['devices: no bound for each network', ') < ?7', ') < ?8'],
      ['devices: a clock that was ahead keeps a network from asking', ' AND ends_at_ms <= ?2 + (?2 - ?6)', ''],
    ],
  },
  {
    file: 'src/signin/codes.ts',
    tests: ['./tests/signin/handing-out.test.ts', './tests/signin/wrong.test.ts', './tests/signin/device.test.ts'],
    changes: [
      ['codes: one lives longer', 'leftMs <= 0 || leftMs', 'leftMs <= -60_000 || leftMs'],
      ['codes: a clock that is set back prolongs one', ' || leftMs > CODE_LEFT_MS_MAX', ''],
      ["codes: a device's is taken for a client's", 'if (isDevice) return ok(null);', ''],
    ],
  },
  {
    file: 'src/signin/device.ts',
    tests: ['./tests/signin/device.test.ts'],
    changes: [
      ['devices: a request never ends', "if (hasEnded(endsAtMs)) return err('expired_token');", ''],
      ['devices: a clock that is set back prolongs a request', ' || leftMs > LEFT_MS_MAX', ''],
      ['devices: a refusal makes a key', "if ('refused' in decided) return err('access_denied');", ''],
      ['devices: a person may guess codes', 'const waitS = guesses.take(personOf(actor));', 'const waitS = 0;'],
      ["devices: a client's code is taken for a device's", '!found.value.isDevice || ', ''],
    ],
  },
  {
    file: 'src/signin/requests.ts',
    tests: ['./tests/signin/wrong.test.ts', './tests/signin/strict.test.ts', './tests/signin/handing-out.test.ts'],
    changes: [
      [
        'token: another client redeems a code',
        "if (sha256(clientId, 'base64url') !== code.client) return 'invalid_grant';",
        '',
      ],
      ['token: any verifier fits', "|| sha256(verifier, 'base64url') !== code.challenge", ''],
      [
        'token: any redirect fits',
        "if (redirectUri !== null && redirectUri !== code.redirectUri) return 'invalid_grant';",
        '',
      ],
      [
        'token: any resource fits',
        "return resource === null || audience.nameOf(resource) === serverOf(code, audience) ? null : 'invalid_target';",
        'return null;',
      ],
      [
        'authorize: a challenge that is the verifier',
        "if (get('code_challenge_method') !== 'S256') return sendBack('invalid_request');",
        '',
      ],
    ],
  },
  {
    file: 'src/ground/redirects.ts',
    tests: ['./tests/ground/redirects.test.ts', './tests/signin/wrong.test.ts'],
    changes: [['redirects: a name that begins like this machine is this machine', '(?=[/?]|$)/', '/']],
  },
  {
    file: 'src/signin/routes/authorize.ts',
    tests: ['./tests/keys/audience.test.ts', './tests/signin/wrong.test.ts'],
    changes: [
      [
        'authorize: another server gets a key for all',
        'const isForeign = resource !== audience.own;',
        'const isForeign = false;',
      ],
      [
        'authorize: the form of another page hands a key over',
        'origin !== new URL(publicUrl).origin',
        'origin === null',
      ],
    ],
  },
];

// The order of the checks before what a person has decided is looked at.

import { expect, test } from 'bun:test';
import { postText, sendOverSocket } from '../../support/http-socket.ts';
import { createTestApp } from '../../support/test-app.ts';

const codeOf = ({ body }: { body: string }) => JSON.parse(body).code as string;

test('size and JSON before credential where the page sends what a person decides', async () => {
  await using asked = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1' } });
  for (const path of ['/authorize', '/device/request', '/device/decision']) {
    const decide = (named = {}) => sendOverSocket(asked.url, postText(path, 'x', named)).then(codeOf);
    const codes = [await decide({ 'Content-Length': '2000000' }), await decide()];
    codes.push(await decide({ Authorization: 'Bearer x' }));
    expect({ path, codes }).toEqual({ path, codes: ['payload_too_large', 'invalid_json', 'invalid_json'] });
  }
});

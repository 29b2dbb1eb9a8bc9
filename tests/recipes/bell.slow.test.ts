// The bell, with receivers that keep what they are told: everything once, also when it is run again, or could not be told.

import { expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testClock } from '../support/clock.ts';
import { CURL_7_81, noting, run } from '../support/command.ts';
import { databaseOf } from '../support/database-client.ts';
import { ROOT } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { COUNTED, createTestApp } from '../support/test-app.ts';

const UNIT = readFileSync(join(import.meta.dir, 'mcp-key-server-bell.service'), 'utf8');
const [, SCRIPT = ''] = /^ExecStart=\/bin\/bash (.*)$/m.exec(UNIT) ?? [];
const [, KEYS = ''] = /^Environment="KEYS=\/usr\/local\/bin\/bun (.*)"$/m.exec(UNIT) ?? [];
const MISSING = ['bash', 'jq', 'curl', 'awk'].some((program) => Bun.which(program) === null);
const OWNER = 'acme "Inc" \\n ü';

test.skipIf(MISSING)('each is told once, to the operator and to the customer whose it is', async () => {
  const app = await createTestApp({ store: 'embedded', clock: testClock(Date.now()), env: { ...COUNTED } });
  const told: string[] = [];
  let refused = '/none';
  await using receiver = Bun.serve({
    port: 0,
    async fetch(request) {
      const { hostname, pathname } = new URL(request.url);
      if (pathname === refused) return new Response(null, { status: 500 });
      const text = hostname.startsWith('ntfy.')
        ? await request.text()
        : ((await request.json()) as { text: string }).text;
      told.push(`${pathname} ${text}`);
      return new Response();
    },
  });
  const folder = temporaryFolder();
  const mails = join(folder, 'mails');
  writeFileSync(join(folder, 'sendmail'), `#!/bin/sh\ntest "$*" = '-i -t' && cat >> '${mails}'\n`, { mode: 0o755 });
  writeFileSync(
    join(folder, 'owners'),
    `other\tnobody@example.com\n1e2\twrong@example.com\n${OWNER}\t${receiver.url}acme\n100\thundred@example.com\n`,
  );
  const curl = noting('curl', CURL_7_81);
  const env = {
    PATH: `${folder}:${curl.path}`,
    HOME: folder,
    DATABASE_URL: databaseOf(app),
    KEYS: `${process.execPath} --no-env-file ${KEYS}`,
    BELL: `http://ntfy.localhost:${receiver.port}/all`,
    OWNERS: join(folder, 'owners'),
    TOLD: join(folder, 'told'),
    METRICS_TOKEN: COUNTED.METRICS_TOKEN,
    URL: app.url,
  };
  const ring = async (changed: object = {}) => {
    told.length = 0;
    const { code, stderr } = await run(['bash', SCRIPT], {
      cwd: ROOT,
      env: { ...env, ...changed },
    });
    return { code, stderr, told: told.toSorted() };
  };
  const quiet = { code: 0, stderr: '', told: [] };
  const away = { URL: 'http://127.0.0.1:1' };
  try {
    expect(await ring()).toEqual(quiet);
    await app.keys('owner', OWNER, '--quota', '10/month');
    const ends = await app.createKey(OWNER, { name: 'soon', expiresInDays: 3 });
    await app.createKey(OWNER, { name: 'later', expiresInDays: 30 });
    const ofHundred = await app.createKey('100', { name: 'h', expiresInDays: 7 });
    for (let uses = 0; uses < 8; uses += 1) expect((await app.useKey(ends.key)).status).toBe(200);
    const leaked = await app.createKey('other');
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: leaked.key }) });
    app.clock.advance(4000); // uses are written
    await app.useKey(ofHundred.key); // it has looked for changes
    const shared = async () => JSON.parse(await app.keys('owner', OWNER, '--json')).quotaShare;
    while ((await shared()) !== 0.8) await Bun.sleep(10);

    const end = (ms: number | null) => new Date(ms ?? 0).toISOString();
    const soon = `Key soon of ${OWNER} ends at ${end(ends.expiresAt)}`.replace('\\', '\\\\');
    const quota = `${OWNER} has used 80 % of 10 a month`.replace('\\', '\\\\');
    const gone = `A leaked key of other was ended: ${leaked.id}, by 127.0.0.1`;
    refused = '/acme';
    const first = await ring();
    expect(first.code).toBe(1);
    expect(first.told).toEqual(
      [`/all ${soon}`, `/all ${quota}`, `/all ${gone}`, `/all Key h of 100 ends at ${end(ofHundred.expiresAt)}`].sort(),
    );
    refused = '/none';
    expect(await ring()).toEqual({ ...quiet, told: [`/acme ${soon}`, `/acme ${quota}`].sort() });
    expect(await ring()).toEqual(quiet);
    expect(readFileSync(mails, 'utf8').match(/^To: .*$/gm)).toEqual([
      'To: hundred@example.com',
      'To: nobody@example.com',
    ]);

    // The server is away, once for each time.
    const isAway = { code: 0, told: ['/all http://127.0.0.1:1 is behind its database, or away'] };
    expect(await ring(away)).toMatchObject(isAway);
    expect(await ring(away)).toMatchObject({ code: 0, told: [] });
    // It hangs.
    await using hanging = Object.assign(Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } }), {
      [Symbol.asyncDispose]: async () => hanging.stop(true),
    });
    expect(await ring()).toEqual(quiet);
    const hung = `http://127.0.0.1:${hanging.port}`;
    const { path } = noting('curl', `[[ $* == *@/dev/fd/* ]] && set -- "\${@/#20/0.2}"`); // not 20 s for the metrics
    expect((await ring({ URL: hung, PATH: `${folder}:${path}` })).told).toEqual([
      `/all ${hung} is behind its database, or away`,
    ]);
    // The address of a webhook may have an @, as those of Teams have.
    const teams = { ...away, BELL: `${receiver.url}room@tenant/in` };
    expect((await ring(teams)).told).toContain('/room@tenant/in http://127.0.0.1:1 is behind its database, or away');
    expect(await ring()).toEqual(quiet);
    // It is behind: nobody knows what was revoked.
    await app.useKey(ends.key);
    await app.loseStore();
    app.clock.advance(900);
    await app.useKey(ends.key);
    expect((await ring()).told).toEqual([`/all ${app.url} is behind its database, or away`]);
    for (const secret of [COUNTED.METRICS_TOKEN, env.BELL, teams.BELL]) {
      expect(curl.noted().filter((line) => line.includes(secret))).toEqual([]);
    }
  } finally {
    await app.close();
  }
});

// The systemd units: systemd finds nothing wrong with them, and what they set lets the server start.

import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { freePorts } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';

/** Of 10; a unit without any hardening has 9.6. */
const EXPOSURE_MAX = 2.0;
/** By default systemd gives up a unit that it has started as often within so long. */
const STARTS_MAX = 5;
const STARTS_WITHIN_S = 10;
const WITHOUT_SYSTEMD = Bun.which('systemd-analyze') === null;

describe.each(['mcp-key-server.service', 'mcp-key-server@.service'])('%s', (name) => {
  const unit = readFileSync(join(import.meta.dir, name), 'utf8');
  const valuesOf = (name: string) =>
    [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);

  test('every line is a section, a comment or a setting, and what protects is set once', () => {
    const others = unit.split('\n').filter((line) => !/^(|#.*|\[(Unit|Service|Install)\]|\w+=.*)$/.test(line));
    expect(others).toEqual([]);
    const protecting = {
      NoNewPrivileges: 'yes',
      ProtectSystem: 'strict',
      ProtectHome: 'yes',
      PrivateTmp: 'yes',
      CapabilityBoundingSet: '',
      UMask: '0077',
      StateDirectory: 'mcp-key-server',
      LogRateLimitIntervalSec: '0', // no line is left out
    };
    for (const [name, value] of Object.entries(protecting)) expect([name, valuesOf(name)]).toEqual([name, [value]]);
  });

  test.skipIf(WITHOUT_SYSTEMD)('systemd knows every setting, and what it leaves exposed is little', async () => {
    const file = join(temporaryFolder(), name);
    // The only program it names, and one that every machine has.
    writeFileSync(file, unit.replace('ExecStart=/usr/local/bin/bun', `ExecStart=${process.execPath}`));
    const analyze = (...args: string[]) => {
      const { exitCode, stdout, stderr } = Bun.spawnSync(['systemd-analyze', '--no-pager', ...args, file]);
      return { exitCode, said: stderr.toString(), stdout: stdout.toString() };
    };
    expect(analyze('verify', '--man=no', '--recursive-errors=no')).toEqual({ exitCode: 0, said: '', stdout: '' });
    const { exitCode, stdout } = analyze('security', '--offline=yes', `--threshold=${EXPOSURE_MAX * 10}`);
    expect(stdout).toContain('Overall exposure level');
    expect(exitCode).toBe(0);
  });

  test('however often a start fails, it is tried again: what it needs may be away', () => {
    expect(valuesOf('Restart')).toEqual(['on-failure']);
    expect(STARTS_MAX * Number(valuesOf('RestartSec')[0])).toBeGreaterThan(STARTS_WITHIN_S);
  });

  test('its command and environment start the server, whose files are its own', async () => {
    const [program, entry] = valuesOf('ExecStart')[0]?.split(' ') ?? [];
    expect([program, entry]).toEqual(['/usr/local/bin/bun', 'src/main.ts']);
    expect(existsSync(join(ROOT, entry ?? ''))).toBe(true);
    const state = temporaryFolder();
    const env = Object.fromEntries(
      valuesOf('Environment').map((line) => {
        const [name = '', value = ''] = line.split(/=(.*)/s);
        return [name, value.replace('/var/lib/mcp-key-server', state)];
      }),
    );
    expect(env).toMatchObject({ NODE_ENV: 'production', DATABASE_URL: `file:${state}/keys.db` });
    const [port] = freePorts(1);
    await using server = await startServer({
      env: { ...env, PORT: String(port), JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1' },
    });
    expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
    expect(readdirSync(server.folder)).toEqual([]);
    for (const name of readdirSync(state)) expect(statSync(join(state, name)).mode & 0o077).toBe(0);
  });
});

describe.each(['backup', 'unused', 'bell'])('mcp-key-server-%s', (name) => {
  test.skipIf(WITHOUT_SYSTEMD)('systemd knows every setting of service and timer', () => {
    const folder = temporaryFolder();
    const units = [`mcp-key-server-${name}.service`, `mcp-key-server-${name}.timer`];
    for (const unit of units) {
      const text = readFileSync(join(import.meta.dir, unit), 'utf8');
      writeFileSync(join(folder, unit), text.replaceAll('/usr/local/bin/bun', process.execPath));
    }
    const verify = ['systemd-analyze', '--no-pager', 'verify', '--man=no', '--recursive-errors=no', ...units];
    const { exitCode, stderr } = Bun.spawnSync(verify, { cwd: folder });
    expect({ code: exitCode, said: stderr.toString() }).toEqual({ code: 0, said: '' });
  });
});

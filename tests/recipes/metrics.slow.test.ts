// The recipes for metrics, on the real Prometheus: it takes them, and its alert fires while the primary is frozen.

import { describe, expect, test } from 'bun:test';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { callOver, userHeaders, userOn } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const RECIPES = join(import.meta.dir, 'metrics');
const TOKEN = 'a-token-for-scrapers';
const WITHOUT_PROMETHEUS = Bun.which('prometheus') === null || Bun.which('promtool') === null;

function promtool(args: readonly string[], stdin = '') {
  const { exitCode, stdout, stderr } = Bun.spawnSync(['promtool', ...args], { stdin: new Blob([stdin]) });
  return { exitCode, output: `${stdout}${stderr}` };
}

const environment = { JWT_SECRET: TEST_SECRET, METRICS_TOKEN: TOKEN };
const scrape = async (url: string) =>
  (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })).text();

describe.skipIf(WITHOUT_PROMETHEUS)('Prometheus', () => {
  test('accepts the alerts, the configuration and what the server says', async () => {
    const folder = temporaryFolder();
    cpSync(RECIPES, folder, { recursive: true });
    writeFileSync(join(folder, 'metrics-token'), TOKEN);
    expect(promtool(['check', 'config', join(folder, 'prometheus.yml')])).toMatchObject({ exitCode: 0 });
    await using server = await startServer({ env: environment });
    await callOver(server.url, 'list_api_keys', {}, await userHeaders('alice'));
    await callOver(server.url, 'get_data');
    expect(promtool(['check', 'metrics'], await scrape(server.url))).toEqual({ exitCode: 0, output: '' });
  });

  test('fires the alert of a bug the first time that a tool or a resource has one, and each time it has another', () => {
    const bug = {
      'tools/call': { mcp_method_name: 'tools/call', gen_ai_tool_name: 'get_data', error_type: 'internal' },
      'resources/read': { mcp_method_name: 'resources/read', error_type: '-32603' },
    };
    const seriesOf = (labels: object) =>
      `mcp_server_operation_duration_seconds_count{${Object.entries(labels).map(([name, value]) => `${name}="${value}"`)}}`;
    const fires = (minute: number, ...methods: (keyof typeof bug)[]) => ({
      eval_time: `${minute}m`,
      alertname: 'KeyServerBug',
      exp_alerts: methods.map((method) => ({
        exp_labels: bug[method],
        exp_annotations: {
          summary: `${method} ${method === 'tools/call' ? 'get_data' : ''} failed with a bug; the log has its stack`,
        },
      })),
    });
    const rules = {
      rule_files: [join(RECIPES, 'alerts.yml')],
      tests: [
        {
          interval: '1m',
          input_series: [
            { series: seriesOf(bug['tools/call']), values: '_x10 1x10 2x20' },
            { series: seriesOf(bug['resources/read']), values: '_x20 1x20' },
            { series: seriesOf({ mcp_method_name: 'tools/call', error_type: 'tool_error' }), values: '_x10 1x30' },
          ],
          alert_rule_test: [
            fires(9),
            fires(10, 'tools/call'),
            fires(17),
            fires(21, 'tools/call', 'resources/read'),
            fires(30),
          ],
        },
      ],
    };
    const file = join(temporaryFolder(), 'bugs.json');
    writeFileSync(file, JSON.stringify(rules));
    expect(promtool(['test', 'rules', file])).toMatchObject({ exitCode: 0 });
  });

  test('fires the alert of the lag while the primary is frozen', async () => {
    await using sqld = await startSqld();
    await using server = await startServer({ env: { ...environment, ...sqld.env } });
    const created = await (await userOn(server)).create();
    const use = () => callOver(server.url, 'get_data', {}, { 'x-api-key': created.body.key });
    expect((await use()).status).toBe(200);

    const folder = temporaryFolder();
    for (const file of ['prometheus.yml', 'alerts.yml']) {
      const recipe = readFileSync(join(RECIPES, file), 'utf8');
      const quick = recipe.replace('127.0.0.1:3000', new URL(server.url).host).replace(/\b1[05]s\b/g, '1s');
      writeFileSync(join(folder, file), quick);
    }
    writeFileSync(join(folder, 'metrics-token'), TOKEN);
    const prometheus = Bun.spawn(
      ['prometheus', '--config.file=prometheus.yml', '--web.listen-address=127.0.0.1:0', '--storage.tsdb.path=data'],
      { cwd: folder, stdin: 'ignore', stdout: 'ignore', stderr: Bun.file(join(folder, 'log')) },
    );
    try {
      const url = await addressOf(join(folder, 'log'));
      const firing = async () => {
        const response = await fetch(`${url}/api/v1/alerts`);
        const { data } = (await response.json()) as {
          data: { alerts: { state: string; labels: { alertname: string } }[] };
        };
        return data.alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname);
      };
      const scraped = async () => {
        const response = await fetch(`${url}/api/v1/query?query=mcp_keys_feed_lag_limit_seconds`);
        return ((await response.json()) as { data: { result: unknown[] } }).data.result.length;
      };
      while ((await fetch(`${url}/-/ready`)).status !== 200) await Bun.sleep(20);
      while ((await scraped()) === 0) await Bun.sleep(100);
      expect(await firing()).toEqual([]);
      sqld.freeze();
      while ((await firing()).length === 0) await Bun.sleep(100);
      expect(await firing()).toEqual(['KeyServerLags']);
      sqld.thaw();
      while ((await firing()).length > 0) {
        await use();
        await Bun.sleep(100);
      }
    } finally {
      sqld.thaw();
      prometheus.kill();
      await prometheus.exited;
    }
  }, 180_000);
});

test('the dashboard and the alerts ask only for metrics that there are', async () => {
  const end = new Date('2031-05-06T07:08:09Z');
  const { cert, certFile: TLS_CERT_FILE, keyFile: TLS_KEY_FILE } = makeCertificate(end);
  await using server = await startServer({ env: { ...environment, TLS_CERT_FILE, TLS_KEY_FILE } });
  const ca = { tls: { ca: cert } };
  const headers = { authorization: `Bearer ${TOKEN}`, 'x-api-key': 'no key' };
  await fetch(`${server.url}/tools/get_data`, { ...ca, method: 'POST', headers });
  const said = await (await fetch(`${server.url}/metrics`, { ...ca, headers })).text();
  expect(said).toContain(`\nmcp_server_certificate_end_time_seconds ${end.getTime() / 1000}\n`);
  const known = new Set([...said.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
  for (const file of ['dashboard.json', 'alerts.yml']) {
    const named = readFileSync(join(RECIPES, file), 'utf8').match(/\b(mcp|process)_\w+/g) ?? [];
    const families = named
      .map((name) => name.replace(/_(bucket|count|sum)$/, ''))
      .filter((name) => !LABELS.includes(name));
    expect([...new Set(families)].filter((name) => !known.has(name))).toEqual([]);
  }
});

const LABELS = ['mcp_method_name'];

/** The address that the system gave it, from its log. */
async function addressOf(log: string): Promise<string> {
  for (;;) {
    const port = /Listening on.*?127\.0\.0\.1:(\d+)/.exec(readFileSync(log, 'utf8'))?.[1];
    if (port !== undefined) return `http://127.0.0.1:${port}`;
    await Bun.sleep(20);
  }
}

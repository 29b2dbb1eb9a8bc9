// Caddy, nginx or HAProxy as a process of its own, with a recipe of tests/recipes as it stands there: only addresses,
// ports and paths are put in its place.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { makeCertificate } from './certificate.ts';
import { temporaryFolder } from './folder.ts';
import { freePorts } from './sqld.ts';

const RECIPES = join(import.meta.dir, '../recipes');

/** How each is told to run a configuration. */
const PROGRAMS = {
  caddy: ['run', '--adapter', 'caddyfile', '--config'],
  nginx: ['-c'],
  haproxy: ['-db', '-f'],
} as const;

export type Program = keyof typeof PROGRAMS;

/** Debian keeps some where only root looks. */
const whereIs = (program: Program) => Bun.which(program, { PATH: `${process.env.PATH}:/usr/sbin` });

export const isMissing = (program: Program): boolean => whereIs(program) === null;

export type FrontProxy = Awaited<ReturnType<typeof startFrontProxy>>;

/** Which address the recipe names, and the URL of what stands there now. */
export type Backends = Readonly<Record<`127.0.0.1:${number}`, string>>;

interface Place {
  readonly folder: string;
  readonly port: number;
  readonly certFile: string;
  readonly keyFile: string;
}

/** Caddy makes certificates itself. */
const INTERNAL = '\ttls internal\n';

/** What each program needs besides the recipe, to run without privileges and beside others. */
const PUT_INTO_PLACE: Readonly<Record<Program, (recipe: string, place: Place) => string>> = {
  caddy: (recipe, { folder, port, certFile, keyFile }) => {
    const tls = recipe.includes(INTERNAL) ? '' : `\n\ttls ${certFile} ${keyFile}`;
    return `{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n\tstorage file_system ${folder}\n}\n${recipe.replace(
      /^\w+\.example \{/m,
      `https://localhost:${port}, https://127.0.0.1:${port} {${tls}`,
    )}`;
  },
  nginx: (recipe, { folder, port }) =>
    `daemon off;\nmaster_process off;\npid ${folder}/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${[
      'client_body',
      'proxy',
      'fastcgi',
      'uwsgi',
      'scgi',
    ]
      .map((kind) => `${kind}_temp_path ${folder}/${kind};\n`)
      .join('')}${recipe.replace('listen 443', `listen 127.0.0.1:${port}`)}}\n`,
  haproxy: (recipe, { port }) => recipe.replace('bind :443', `bind 127.0.0.1:${port}`),
};

/** `edit`: what a test changes in the recipe and in what belongs to it. */
export async function startFrontProxy(
  program: Program,
  recipe: string,
  backends: Backends,
  edit = (text: string) => text,
) {
  const folder = temporaryFolder();
  const [port = 0] = freePorts(1);
  const { certFile, keyFile, cert } = makeCertificate();
  const bundle = join(folder, 'bundle.pem');
  writeFileSync(bundle, cert + readFileSync(keyFile, 'utf8'));
  let text = PUT_INTO_PLACE[program](edit(read(program, recipe)), { folder, port, certFile, keyFile })
    .replaceAll('/etc/ssl/example.pem', bundle)
    .replaceAll('/etc/ssl/example.key', keyFile)
    .replaceAll('/etc/haproxy/', `${folder}/`)
    .replaceAll('https://mcp.example', `https://127.0.0.1:${port}`);
  writeFileSync(join(folder, 'verify.lua'), edit(read('haproxy', 'verify.lua')));
  for (const [named, url] of Object.entries(backends)) {
    text = text.replaceAll(new RegExp(`${RegExp.escape(named)}(?!\\d)`, 'g'), new URL(url).host); // not in …:30004
  }
  const config = join(folder, 'config');
  writeFileSync(config, text);
  const child = Bun.spawn([whereIs(program) ?? program, ...PROGRAMS[program], config], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  });
  process.on('exit', () => child.kill('SIGKILL')); // a test that ran out of time doesn't stop what it started
  const stderr = new Response(child.stderr).text();
  const url = `https://127.0.0.1:${port}`;
  while (!(await speaksTls(port))) {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}: ${await stderr}`);
    await Bun.sleep(10);
  }
  const ca = text.includes(INTERNAL) ? readFileSync(join(folder, 'pki/authorities/local/root.crt'), 'utf8') : cert;
  return {
    url,
    /** Sends a request to it, trusting its certificate. */
    fetch: (path: string, init?: RequestInit) => fetch(url + path, { ...init, tls: { ca } }),
    /** The same for what is asked of it, and of servers without a certificate. */
    fetchAny(asked: string | URL, init?: RequestInit): Promise<Response> {
      return fetch(asked, { ...init, ...(new URL(asked).origin === url && { tls: { ca } }) });
    },
    /** Sends a request with headers that `fetch` doesn't send, and `Connection: close`. */
    sendLines: (lines: readonly string[]) => sendLines(port, lines),
    /** The status over HTTP/2, also where the proxy does not offer it, for curl with these arguments. */
    async statusOverHttp2(path: string, ...args: readonly string[]): Promise<string> {
      const command = ['curl', '-sk', '--http2-prior-knowledge', '-m', '10', '-o', '/dev/null', '-w', '%{http_code}'];
      const child = Bun.spawn([...command, ...args, url + path], { stdout: 'pipe', stderr: 'ignore' });
      return new Response(child.stdout).text();
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await child.exited;
    },
  };
}

const read = (program: Program, recipe: string) => readFileSync(join(RECIPES, program, recipe), 'utf8');

/** Resolves with all that comes until the other side ends the connection. */
function sendLines(port: number, lines: readonly string[]): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const host = '127.0.0.1';
  const socket = connect({ host, port, rejectUnauthorized: false }, () =>
    socket.write([...lines, `Host: ${host}:${port}`, 'Connection: close', '', ''].join('\r\n')),
  );
  let answer = '';
  socket.on('data', (bytes) => {
    answer += bytes;
  });
  socket.on('end', () => {
    socket.destroy();
    resolve(answer);
  });
  socket.on('error', reject);
  return promise;
}

/** Caddy listens before it has made its own certificate. */
const speaksTls = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });

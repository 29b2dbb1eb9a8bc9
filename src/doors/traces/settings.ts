// Reads OpenTelemetry's variables. They belong to the whole machine, so none stops a start: a value that can't be used is a
// warning, and counts as unset (OpenTelemetry, "Environment Variable Specification"). Pure.

import type { Env } from '../../config/env.ts';
import { isLoopback } from '../../ground/ip.ts';
import { SERVER_NAME } from '../../ground/server-info.ts';
import { isStorable } from '../../ground/text.ts';

export interface Sampler {
  /** Whether a parent's flag decides. */
  readonly isParentBased: boolean;
  /** The part of traces without such a parent, 0 to 1. */
  readonly ratio: number;
}

export interface TraceSettings {
  readonly url: string;
  /** Its scheme, host and port: what may be shown. */
  readonly origin: string;
  readonly headers: Headers;
  readonly timeoutMs: number;
  readonly sampler: Sampler;
  readonly serviceName: string;
  readonly attributes: ReadonlyMap<string, string>;
}

interface Warning {
  readonly event: 'variable without effect' | 'traces in clear text';
  readonly variable: string;
  readonly reason: string;
}

type Name = `OTEL_${string}`;

const TIMEOUT_MS_DEFAULT = 10_000;
/** Longer than all retries may take together. */
const TIMEOUT_MS_MAX = 600_000;
const TEXT_CHARS_MAX = 255;
const LIST_CHARS_MAX = 16_384;
const LIST_MAX = 128;

/** Returns the settings, or null if nothing is to be sent, and what the operator should know. */
export function settingsIn(env: Env, production: boolean) {
  const warnings: Warning[] = [];
  const warn = (variable: string, reason: string) =>
    void warnings.push({ event: 'variable without effect', variable, reason });

  /** Returns the first value that is set and can be used. Warns of each that can't be used. */
  const read: Read = (names, expected, parse) => {
    const parsed = names.map((name) => {
      const value = env[name];
      const found = value ? parse(value, name) : undefined;
      if (found === null) warn(name, `expected ${expected}`);
      return found ?? undefined;
    });
    return parsed.find((found) => found !== undefined);
  };

  const none = { settings: null, warnings };
  if (read(['OTEL_SDK_DISABLED'], 'true or false', flagOf) === 'true') return none;
  if (read(['OTEL_TRACES_EXPORTER'], 'otlp or none', oneOf(['otlp', 'none'])) === 'none') return none;
  const found = read(ofTraces('ENDPOINT'), URL_EXPECTED, endpointOf);
  if (found === undefined) return none;
  const { endpoint, variable } = found;
  const { origin, hostname, protocol } = endpoint;
  const protocols = ofTraces('PROTOCOL');
  const wanted = read(protocols, PROTOCOLS.join(' or '), oneOf(PROTOCOLS));
  const named = protocols.find((name) => env[name] === wanted) ?? '';
  if (wanted === 'grpc') {
    warn(named, `nothing is sent: spans are sent by HTTP alone, with http/json to ${httpOriginOf(endpoint)}`);
    return none;
  }
  if (wanted === 'http/protobuf') warn(named, 'spans are sent as JSON, which receivers take at the same address');
  if (production && protocol === 'http:' && !isLoopback(hostname)) {
    warnings.push({ event: 'traces in clear text', variable, reason: origin });
  }
  const headers = read(ofTraces('HEADERS'), LIST_EXPECTED, headersOf) ?? new Headers();
  const attributes = new Map(read(['OTEL_RESOURCE_ATTRIBUTES'], LIST_EXPECTED, listOf));
  const serviceName = read(['OTEL_SERVICE_NAME'], `text of 1-${TEXT_CHARS_MAX} characters`, textOf);
  const settings: TraceSettings = {
    url: withoutUser(endpoint, headers),
    origin,
    headers,
    timeoutMs: read(ofTraces('TIMEOUT'), `1-${TIMEOUT_MS_MAX} milliseconds`, timeoutOf) ?? TIMEOUT_MS_DEFAULT,
    sampler: samplerIn(read),
    serviceName: serviceName ?? (attributes.get('service.name') || SERVER_NAME),
    attributes,
  };
  return { settings, warnings };
}

/** Returns the variable of traces, and that of all signals, whose place it takes. */
const ofTraces = (name: string): readonly Name[] => [`OTEL_EXPORTER_OTLP_TRACES_${name}`, `OTEL_EXPORTER_OTLP_${name}`];

type Read = <T>(
  names: readonly Name[],
  expected: string,
  parse: (value: string, name: Name) => T | null,
) => T | undefined;

const PROTOCOLS = ['http/json', 'http/protobuf', 'grpc'] as const;
const SAMPLERS = ['always_on', 'always_off', 'traceidratio'] as const;
const ALL_SAMPLERS = [...SAMPLERS, ...SAMPLERS.map((name) => `parentbased_${name}` as const)] as const;

function samplerIn(read: Read): Sampler {
  const name = read(['OTEL_TRACES_SAMPLER'], ALL_SAMPLERS.join(' or '), oneOf(ALL_SAMPLERS)) ?? 'parentbased_always_on';
  const given = read(['OTEL_TRACES_SAMPLER_ARG'], 'a number from 0 to 1', ratioOf) ?? 1;
  const ratio = name.endsWith('always_on') ? 1 : name.endsWith('always_off') ? 0 : given;
  return { isParentBased: name.startsWith('parentbased_'), ratio };
}

const URL_EXPECTED = 'an http or https URL';
const LIST_EXPECTED = `name=value with commas between, percent-encoded, at most ${LIST_MAX}`;

const oneOf =
  <T extends string>(choices: readonly T[]) =>
  (value: string): T | null =>
    choices.find((choice) => choice === value) ?? null;

const flagOf = (value: string) => oneOf(['true', 'false'])(value.toLowerCase());

const ratioOf = (value: string): number | null =>
  /^(\d+(\.\d*)?|\.\d+)(e-?\d+)?$/i.test(value) && Number(value) <= 1 ? Number(value) : null;

const timeoutOf = (value: string): number | null =>
  /^\d{1,6}$/.test(value) && Number(value) >= 1 && Number(value) <= TIMEOUT_MS_MAX ? Number(value) : null;

const textOf = (value: string): string | null => (value.length <= TEXT_CHARS_MAX && isStorable(value) ? value : null);

function urlOf(value: string): URL | null {
  const url = URL.parse(value);
  return url !== null && /^https?:$/.test(url.protocol) ? url : null; // one without a host is none
}

/** Returns where traces go by a variable. To the address of all signals their path is added. */
function endpointOf(value: string, variable: Name) {
  const endpoint = urlOf(value);
  if (endpoint === null) return null;
  if (variable === 'OTEL_EXPORTER_OTLP_ENDPOINT')
    endpoint.pathname = `${endpoint.pathname.replace(/\/+$/, '')}/v1/traces`;
  return { endpoint, variable };
}

/** Returns the URL without a user, whom it sends in Authorization: `fetch` takes no such URL. */
function withoutUser(endpoint: URL, headers: Headers): string {
  const { username, password } = endpoint;
  const url = new URL(endpoint);
  url.username = '';
  url.password = '';
  if (username !== '' && !headers.has('authorization')) {
    const user = decoded(`${username}:${password}`) ?? '';
    headers.set('authorization', `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(user)))}`);
  }
  return url.href;
}

/** Returns where the receiver of gRPC at this address usually takes HTTP. */
function httpOriginOf(endpoint: URL): string {
  const url = new URL(endpoint.origin);
  if (url.port === '4317') url.port = '4318';
  return url.origin;
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Returns the pairs of `name=value,…` (W3C Baggage), decoded; null if one is none. */
function listOf(value: string): readonly (readonly [string, string])[] | null {
  if (value.length > LIST_CHARS_MAX) return null;
  const parts = value.split(',').filter((part) => part.trim() !== '');
  const pairs = parts.map((part) => {
    const at = part.indexOf('=');
    return [decoded(part.slice(0, Math.max(at, 0)).trim()), decoded(part.slice(at + 1).trim())] as const;
  });
  const isPair = (pair: readonly [string | null, string | null]): pair is readonly [string, string] =>
    Boolean(pair[0]) && pair[1] !== null && pair.every((one) => isStorable(String(one)));
  return pairs.length <= LIST_MAX && pairs.every(isPair) ? pairs : null;
}

function headersOf(value: string): Headers | null {
  try {
    const list = listOf(value);
    return list && new Headers(list.map(([name, text]) => [name, text]));
  } catch {
    return null; // no header has such a name or value
  }
}

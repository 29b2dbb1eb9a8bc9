// A program without a browser that asks for a key, and the person who decides on it, as the page of keys does.

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** A server, and how it is asked. */
export interface Door {
  readonly url: string;
  /** For a server whose certificate only the test trusts. */
  readonly fetch?: (url: string | URL, init?: RequestInit) => Promise<Response>;
}

// biome-ignore lint/suspicious/noExplicitAny: tests read responses of any shape
export type Answer = { status: number; headers: Headers; body: any };

const answerOf = async (response: Response): Promise<Answer> => ({
  status: response.status,
  headers: response.headers,
  body: await response.json(),
});

/** POSTs JSON there. */
export const postJsonTo = ({ url, fetch: ask = fetch }: Door, path: string, body: object, headers = {}) =>
  ask(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

export const postForm = async (
  { url, fetch: ask = fetch }: Door,
  path: string,
  fields: Record<string, string>,
  headers = {},
): Promise<Answer> => answerOf(await ask(url + path, { method: 'POST', body: new URLSearchParams(fields), headers }));

/** The program asks. */
export const askForKey = (door: Door, fields: Record<string, string> = {}, headers = {}): Promise<Answer> =>
  postForm(door, '/device_authorization', fields, headers);

/** The program fetches the key. */
export const pollForKey = (door: Door, deviceCode: string): Promise<Answer> =>
  postForm(door, '/token', { grant_type: DEVICE_GRANT, device_code: deviceCode });

/** What the page sends for a person, to see a request or to decide on it. */
export const askAsPerson = async (
  door: Door,
  path: 'request' | 'decision',
  body: object,
  user: Record<string, string>,
): Promise<Answer> => answerOf(await postJsonTo(door, `/device/${path}`, body, user));

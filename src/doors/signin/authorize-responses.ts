// Creates the responses of /authorize: the pages of authorize-page.ts, and redirects to the client.

import { type Problem, publicPart } from '../../ground/problem.ts';
import { UNCACHED_HEADERS } from '../../web/headers.ts';
import { challengeFor, problemHeaders } from '../../web/problem-response.ts';

const loadPages = () => import('./authorize-page.ts'); // loaded on first use, to keep the start fast

type Pages = Awaited<ReturnType<typeof loadPages>>;

export async function html(status: number, make: (page: Pages) => string, problem?: Problem): Promise<Response> {
  const page = await loadPages();
  const common = {
    ...UNCACHED_HEADERS,
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': page.POLICY,
    'Referrer-Policy': 'same-origin', // with `no-referrer` the form's Origin would be `null`
    'X-Frame-Options': 'DENY',
  };
  const headers = problem === undefined ? common : problemHeaders(common, problem, challengeFor(problem, null));
  return new Response(make(page), { status, headers });
}

/** Creates the response with an error page. `problem` determines the status, by default 400. */
export const errorPage = (why: string, problem?: Problem): Promise<Response> =>
  html(problem === undefined ? 400 : publicPart(problem).status, (page) => page.errorPage(why), problem);

export function problemPage(problem: Problem): Promise<Response> {
  const { status, detail } = publicPart(problem);
  return html(status, (page) => page.errorPage(detail), problem);
}

export const seeOther = (location: string): Response =>
  new Response(null, { status: 303, headers: { ...UNCACHED_HEADERS, Location: location } });

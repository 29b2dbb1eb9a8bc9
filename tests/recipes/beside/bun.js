// Your app's half of KEYS_PAGE_SIGN_IN, with Bun: `Bun.serve({ routes: { '/keys-sign-in': keysSignIn(userOf) } })`, as with
// any server of `Request` and `Response`. `userOf(request)` is your own sign-in: the user `{ id, name }`, or null.
import { SignJWT } from 'jose';

const { KEYS_URL, JWT_SECRET } = process.env; // PUBLIC_URL of the key server, and its secret
if (!KEYS_URL || !JWT_SECRET) throw new Error('Set KEYS_URL and JWT_SECRET');
const RETURN = `${KEYS_URL}/keys`; // nobody is sent anywhere else
const secret = new TextEncoder().encode(JWT_SECRET);
const redirect = (to) => new Response(null, { status: 303, headers: { Location: to, 'Cache-Control': 'no-store' } });

export const keysSignIn = (userOf) => async (request) => {
  const { pathname, search, searchParams } = new URL(request.url);
  const state = searchParams.get('state');
  if (searchParams.get('return') !== RETURN || state === null) return new Response('Not our page', { status: 400 });
  const sendBack = (answer) => redirect(`${RETURN}#${new URLSearchParams({ ...answer, state })}`);
  const user = await userOf(request);
  if (user === null) return redirect(`/login?next=${encodeURIComponent(pathname + search)}`);
  if (user.mayHaveKeys === false) return sendBack({ error: 'Your plan has no API keys yet.' });
  const token = await new SignJWT({ name: user.name })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(user.id.toString()) // it owns the keys; throws where there is none
    .setExpirationTime('1h')
    .sign(secret);
  return sendBack({ token });
};

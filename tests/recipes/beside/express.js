// Your app's half of KEYS_PAGE_SIGN_IN, with Express 5 and ES modules: `app.get('/keys-sign-in', keysSignIn(userOf))`.
// `userOf(request)` is your own sign-in: the user `{ id, name }`, or null.
import { SignJWT } from 'jose';

const { KEYS_URL, JWT_SECRET } = process.env; // PUBLIC_URL of the key server, and its secret
if (!KEYS_URL || !JWT_SECRET) throw new Error('Set KEYS_URL and JWT_SECRET');
const RETURN = `${KEYS_URL}/keys`; // nobody is sent anywhere else
const secret = new TextEncoder().encode(JWT_SECRET);

export const keysSignIn = (userOf) => async (request, response) => {
  const { return: to, state } = request.query;
  if (to !== RETURN || typeof state !== 'string') return response.status(400).send('This is not our page of keys.');
  const sendBack = (answer) => response.redirect(303, `${RETURN}#${new URLSearchParams({ ...answer, state })}`);
  const user = await userOf(request);
  if (user === null) return response.redirect(303, `/login?next=${encodeURIComponent(request.originalUrl)}`);
  if (user.mayHaveKeys === false) return sendBack({ error: 'Your plan has no API keys yet.' });
  const token = await new SignJWT({ name: user.name })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(user.id.toString()) // it owns the keys; throws where there is none
    .setExpirationTime('1h')
    .sign(secret);
  response.set('Cache-Control', 'no-store');
  return sendBack({ token });
};

// The form of a new key: what it asks for, and how what was typed is kept.

/** The input of create_api_key. */
export function wanted(form) {
  const typed = new FormData(form);
  const [days, limit, quota] = ['days', 'limit', 'quota'].map((name) => typed.get(name));
  return {
    name: typed.get('name'),
    scopes: typed.getAll('scopes').flatMap((text) => text.split(/\s+/).filter(Boolean)),
    ...(days !== '' && { expiresInDays: Number(days) }),
    ...(limit && { rateLimit: { requests: Number(limit), window: typed.get('window') } }),
    ...(quota && { quota: { requests: Number(quota), period: typed.get('period') } }),
  };
}

/** What was typed, as JSON can hold it. */
export const typedIn = (form) => [...new FormData(form)];

export function typeAgain(form, typed) {
  for (const field of form.elements) {
    const values = typed.filter(([name]) => name === field.name).map(([, value]) => value);
    if (field.type === 'checkbox') field.checked = values.includes(field.value);
    else if (values.length > 0) field.value = values[0];
    if (field.type === 'number' && field.value !== '') field.closest('details').open = true;
  }
}

/** A browser can't point at what it refuses in a closed part. */
export const openParts = ({ target }) => {
  const part = target.closest('details');
  if (part) part.open = true;
};

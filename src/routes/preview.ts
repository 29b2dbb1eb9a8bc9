// GET /widgets/preview: the widgets with sample data. Knows no real key and calls no tool.

import { PAGE_HEADERS } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import { type Handler, queryOf } from '../http/router.ts';
import { once } from '../lib/memoize.ts';

async function loadPreview() {
  const { createPreview, parseChoices } = await import('../widgets/preview.ts');
  const { policy, page } = createPreview();
  const headers = {
    ...PAGE_HEADERS,
    'Content-Security-Policy': policy,
  };
  return { headers, parseChoices, page };
}

export function previewRoute(): Handler {
  const preview = once(loadPreview); // at first use: start-up doesn't wait for it
  return async ({ request, requestId }) => {
    const { headers, parseChoices, page } = await preview();
    const chosen = parseChoices(queryOf(request.url));
    if (!chosen.ok) return problemResponse({ code: 'invalid_input', issues: chosen.error }, requestId);
    return new Response(page(chosen.value), { headers });
  };
}

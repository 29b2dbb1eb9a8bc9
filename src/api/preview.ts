// GET /widgets/preview: the widgets with sample data. Knows no real key and calls no tool.

import { once } from '../ground/cache.ts';
import { PAGE_HEADERS } from '../web/headers.ts';
import type { Handler } from '../web/router.ts';

export function previewRoute(lagMaxMs: number): Handler {
  const load = once(async () => {
    const { createPreview } = await import('../pages/widgets/preview.ts'); // at first use: start-up doesn't wait for it
    const { html, policy } = createPreview(lagMaxMs);
    return { page: new Blob([html]), headers: { ...PAGE_HEADERS, 'Content-Security-Policy': policy } };
  });
  return async () => {
    const { page, headers } = await load();
    return new Response(page, { headers });
  };
}

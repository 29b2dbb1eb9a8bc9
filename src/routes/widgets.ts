// GET /widgets/preview: the widgets with sample data. It knows no real key and calls no tool.

import type { Clock } from '../clock.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { Handler } from '../http/router.ts';
import { createPreview, parseChoices } from '../widgets/preview.ts';

export function previewRoute(clock: Clock): Handler {
  const preview = createPreview();
  return ({ request, requestId }) => {
    const chosen = parseChoices(new URL(request.url).searchParams);
    if (!chosen.ok) return problemResponse({ code: 'invalid_input', issues: chosen.error }, requestId);
    return new Response(preview.render(chosen.value, clock.nowMs()), { headers: preview.headers });
  };
}

// GET /widgets/preview: serves widgets with sample data, which call no tools.

import type { Resource } from '../calls/content.ts';
import type { Tool } from '../calls/tool.ts';
import { once } from '../ground/cache.ts';
import { PAGE_HEADERS } from '../web/headers.ts';
import { problemResponse } from '../web/problem-response.ts';
import { type Handler, queryOf } from '../web/router.ts';

interface PreviewOptions {
  readonly production: boolean;
  readonly revocationLagMaxMs: number;
  readonly tools: readonly Tool[];
  readonly resources: readonly Resource[];
}

/** Creates the route of the previews. In development `?tool=<name>` shows the widget of your own tool. */
export function previewRoute({ production, revocationLagMaxMs, tools, resources }: PreviewOptions): Handler {
  const pages = once(() => import('../pages/widgets/preview.ts')); // loaded on first use, to keep the start fast
  const links = production ? [] : tools.filter(hasPreview).map(({ name }) => name);
  const whole = once(async () => shown(await (await pages()).createPreview(revocationLagMaxMs, links)));
  return async ({ request, requestId }) => {
    const wanted = queryOf(request.url).get('tool');
    if (wanted === null) return (await whole())();
    if (production) return problemResponse({ code: 'not_found' }, requestId, null);
    const tool = tools.find(({ name }) => name === wanted);
    if (tool === undefined) return problemResponse({ code: 'tool_not_found' }, requestId, null);
    const content = await resources.find(({ uri }) => uri === tool.widget)?.read();
    if (content === undefined || !('text' in content)) {
      return problemResponse({ code: 'tool_not_found', lacksWidget: true }, requestId, null);
    }
    return shown((await pages()).createToolPreview(tool, content.text, tools))();
  };
}

/** Returns whether a tool's widget has something to show. A sample without a widget is for the widgets of other tools. */
const hasPreview = ({ widget, sample }: Tool): boolean => widget !== undefined && sample !== undefined;

/** Returns a function that creates responses with the page. They share its bytes. */
function shown({ html, policy }: { readonly html: string; readonly policy: string }): () => Response {
  const [page, headers] = [new Blob([html]), { ...PAGE_HEADERS, 'Content-Security-Policy': policy }];
  return () => new Response(page, { headers });
}

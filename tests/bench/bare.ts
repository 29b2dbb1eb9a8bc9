// The bare limit: Bun.serve awaits req.json() and answers constant bytes with constant headers. Reads both from its argument.

const [answerJson = '{}'] = process.argv.slice(2);
const { body, headers } = JSON.parse(answerJson) as { body: string; headers: Record<string, string> };

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    await request.json();
    return new Response(body, { headers });
  },
});

process.stderr.write(`listening on http://127.0.0.1:${server.port}\n`);

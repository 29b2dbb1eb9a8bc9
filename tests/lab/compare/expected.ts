// What is different on purpose from d65035e1, the last commit before the core and its doors: each row a change that the
// documents name. When the next comparison begins at a later commit, the rows go.

interface Expected {
  readonly change: string;
  /** What kind, before and now look like, as `<kind>\n<before>\n<now>`. */
  readonly looks: RegExp;
}

export const EXPECTED: readonly Expected[] = [
  {
    change: 'OAuth refusals have an error_description (/token, /register, /device_authorization)',
    looks: /body\.error_description\n\(none\)/,
  },
  { change: 'pages, their parts and widgets are minified, and have other hashes', looks: /<style>|sha256-/ },
  {
    change: 'operators have a part of the page: GET /keys/operators.js',
    looks: /(?:GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS) \/keys\/operators\.js/,
  },
  { change: 'whoami says which workload presents a key', looks: /workload/ },
  { change: 'keys have a number of rules', looks: /\.rules\n/ },
  { change: 'a quota says what remains', looks: /\bremaining\b/ },
  { change: 'an owner says how much of the quota is used', looks: /quotaShare/ },
  {
    change: 'JSON Schema that every host takes: no propertyNames, const or exclusiveMinimum',
    looks: /propertyNames|\.const|\.type\n\(none\)\nboolean|[mM]inimum|by names like plan|more than 0/,
  },
  {
    change: 'a limit may be text, as 5000/day',
    looks: /\.(?:rateLimit|quota)(?:\.anyOf\[\])?(?:\.\w+|, order|\.anyOf)?\n|[Ff]or example "?\d+\/|or text like/,
  },
  {
    change: 'admin_list_keys finds keys by id, fingerprint, children and choice',
    looks: /admin_list_keys.*(?:description|properties\.|required|issues|order)|childrenOf/,
  },
  { change: 'the events of anybody’s key, or of an owner, for admins', looks: /\/keys\/events/ },
  { change: 'nobody blocks the owner that he is himself', looks: /Nobody blocks the owner/ },
  { change: 'scopes are a set, and their description is one', looks: /\.scopes\.description/ },
  {
    change: 'a key that was good and has ended is 401 on /mcp',
    looks: /→ 401: status\n[\s\S]*"code":"invalid_api_key"/,
  },
  { change: 'a session is hidden from others, whatever they post', looks: /\/messages.*400 → 404: status/ },
  { change: 'a client’s id has its name in it', looks: /body\.client_id\n/ },
  { change: 'the members of /token, in another order', looks: /\/token, 200: body, order/ },
  { change: 'a problem may say that it is of the owner', looks: /Problem\.properties\.of\.enum/ },
  {
    change: 'the metadata names jwt-bearer, and has its members in another order',
    looks: /oauth-authorization-server, \d+: body(?:, order|\.grant_types_supported)/,
  },
  { change: '/changes answers at once: wait_ms is a field like any other', looks: /\/changes, 400 → 200: status/ },
  { change: 'a use that no answer asked for is left out', looks: /\/introspect, 400 → 200: status/ },
  {
    change: 'a limited tool states its limit on /mcp where no guard ran, too',
    looks: /POST \/mcp tools\/call.*: header ratelimit(?:-policy)?\n\(none\)\n/,
  },
  {
    change: 'a program that is known, with a wrong request, is not called unknown',
    looks: /\/authorize, 400: body\..*\n.*does not know the program.*\n.*invalid_request/,
  },
  { change: 'what is wrong with a body is said before who may send it', looks: /\/authorize, 401 → 400: status/ },
  {
    change: 'a wrong request of a program is refused as such, before its other fields are looked at',
    looks: /\/authorize, 400: body\.(?:.*\n.*\nThe request is refused: invalid_request|issues\[\]\.path\nname\n)$/,
  },
  { change: 'GET / names each route that answers', looks: /GET \/, 200: body\n[\s\S]*\n.*the messages of its clients/ },
  {
    change: 'a person reads what is wrong with a decision or an edit, where the schema of no tool is meant',
    looks: /400: body\.detail\nThe input does not fit the schema of the tool\n/,
  },
  { change: 'the output of a new secret says that it has a key', looks: /\.required\[\]\nname\nkey$/ },
  { change: 'a client that is none gets a challenge', looks: /\/token, 401: header www-authenticate\n\(none\)\n/ },
];

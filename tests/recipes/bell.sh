#!/bin/bash
# A bell: says, once each, that a key ends within 7 days, that an owner has used 80 % of their quota, that a leaked key was
# ended (POST /revoke), and that the server is behind its database or away. What can't be told is tried again the next time.
#   BELL=https://ntfy.example/keys    where everything is told: an ntfy topic, a chat's webhook, or a mail address
#   OWNERS=/etc/mcp-key-server-owners.tsv    a line `owner<TAB>address` for each customer who is told of their own
#   TOLD=/var/lib/mcp-key-server-bell/told    what was told, and to whom: remove lines when it is large
#   URL=http://127.0.0.1:3000 METRICS_TOKEN=…    of the server; KEYS='bun run keys' and its variables
# Needs bash, jq, curl, GNU grep and sed; for mail sendmail. mcp-key-server-bell.timer runs it.
set -euo pipefail
keys() { ${KEYS:-bun run keys} "$@" --json; }
call() { # address, options: who hangs doesn't keep it, and `ps` shows no address, since that of a webhook is a secret
  curl -sS --fail --max-time 20 --config <(printf 'url = "%s"\n' "$1") "${@:2}"
}
ring() { # address, text
  case $1 in
    http*://ntfy.*) call "$1" -o /dev/null --data-raw "$2" ;;
    http*://*) jq -cn --arg text "$2" '{$text}' | call "$1" -o /dev/null -H 'Content-Type: application/json' --data-binary @- ;;
    *) printf 'To: %s\nSubject: API keys\nContent-Type: text/plain; charset=utf-8\n\n%s\n' "$1" "$2" | sendmail -i -t ;;
  esac
}
found() { # what is to be told now: its id, the text, whose it is
  behind=$(call "$URL/metrics" -H @<(printf 'Authorization: Bearer %s' "$METRICS_TOKEN") | awk '
    $1 == "mcp_keys_feed_lag_seconds" { lag = $2 } $1 == "mcp_keys_feed_lag_limit_seconds" { limit = $2 }
    END { print (lag ~ /Inf/ || lag > 0.8 * limit) }') || behind=1
  if [ "$behind" = 1 ]; then printf 'behind\t%s\t\n' "$URL is behind its database, or away"; else sed -i '/^behind\t/d' "$TOLD"; fi
  keys list --expires-within 7d | jq -r '["ends \(.id) \(.expiresAt)", "Key \(.name) of \(.owner) ends at \(.expiresAt)", .owner] | @tsv'
  keys owners | jq -r 'select(.quotaShare >= 0.8) | (if .quota.period == "day" then "%F" else "%Y-%m" end) as $period
    | ["quota \(.quota.requests) \(now | strftime($period)) \(.owner)",
       "\(.owner) has used \(.quotaShare * 100 | floor) % of \(.quota.requests) a \(.quota.period)", .owner] | @tsv'
  keys events --since "$(date -u -d '2 days ago' +%FT%TZ)" --limit 10000 | jq -r 'select(.how == "possession")
    | ["leaked \(.keyId) \(.at)", "A leaked key of \(.owner) was ended: \(.keyId), by \(.address // "an unknown address")", .owner] | @tsv'
}
touch "$TOLD"
found | {
  failed=0
  while IFS=$'\t' read -r id text owner; do
    customer=$(awk -F '\t' -v owner="$owner" '$1 == owner "" && owner != "" { print $2; exit }' "${OWNERS:-/dev/null}")
    for to in "$BELL" ${customer:+"$customer"}; do
      grep -qxF "$id"$'\t'"$to" "$TOLD" && continue
      if ring "$to" "$text"; then printf '%s\t%s\n' "$id" "$to" >>"$TOLD"; else failed=1; fi
    done
  done
  exit $failed
}

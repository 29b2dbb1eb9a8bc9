#!/bin/bash
# What each owner used on the last three whole days (UTC), each as that day's total, to a meter that takes the last value of
# an identifier: a total that is sent again replaces the one before. Every hour, where `keys` works:
#   METER=https://billing.example/usage METER_TOKEN=… KEYS='bun run keys' usage-meter.sh
# Needs bash, jq, curl, and a date that knows -d (GNU, busybox).
set -euo pipefail
used() { ${KEYS:-bun run keys} usage --days "$1" --json 2>/dev/null; }
for ago in 1 2 3; do
  day=$(date -u -d "@$(($(date +%s) - ago * 86400))" +%F)
  # What was used from that day on, less what was used after it.
  { used "$ago" | jq -c '.units *= -1'; used $((ago + 1)); } | jq -sc --arg day "$day" '
    group_by(.owner)[] | { id: "\(.[0].owner)/\($day)", owner: .[0].owner, day: $day, units: (map(.units) | add) }
    | select(.units > 0)' |
    while read -r total; do
      printf '%s' "$total" |
        curl -sS --fail -X PUT "$METER" -H "Authorization: Bearer $METER_TOKEN" -H 'Content-Type: application/json' --data-binary @-
    done
done

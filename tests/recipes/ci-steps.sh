#!/bin/sh
# A CI job that gives each of its steps a child of its key, with one scope, for ten minutes at most. KEYS_URL and JOB_KEY, a
# key with the scope delegate, are the job's; a step has API_KEY, which ends with it. A step that must not have JOB_KEY runs
# as another user, or in a container: programs of one user see the environment of each other.
set -eu

# step <name> <scope> <command…>
step() {
  name=$1 scope=$2
  shift 2
  child=$(printf %s "$JOB_KEY" | curl -sS --fail-with-body "$KEYS_URL/token" \
    -d grant_type=urn:ietf:params:oauth:grant-type:token-exchange \
    -d subject_token_type=urn:ietf:params:oauth:token-type:access_token --data-urlencode subject_token@- \
    --data-urlencode "scope=$scope" -d expires_in=600 --data-urlencode "client_name=$name") || {
    printf '%s\n' "$child" >&2
    return 1
  }
  API_KEY=$(printf %s "$child" | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
  status=0
  (unset JOB_KEY && export API_KEY && "$@") || status=$?
  printf %s "$API_KEY" | curl -sS -o /dev/null "$KEYS_URL/revoke" --data-urlencode token@- || :
  return "$status"
}

step 'fetch orders' read ./fetch-orders
step publish write ./publish

"""Checks API keys of an mcp-key-server from memory, by the rules in its src/api/README.md."""
import asyncio, base64, collections, hashlib, http.client, json, logging, math, threading, time, urllib.request
KEYS_MAX, TOLD_MAX, PAIR_MAX, LOG = 100_000, 1000, 1_000_000, logging.getLogger(__name__)
CODES = {"missing_api_key": (401, "No API key provided"), "invalid_api_key": (401, "Invalid or expired API key"),
         "insufficient_scope": (403, "Insufficient permissions"), "rate_limited": (429, "Rate limit exceeded"),
         "quota_exceeded": (429, "The quota is used up"), "store_unavailable": (503, "Out of reach; try again")}
HINTS = {"invalid_client": ": id or key is wrong, or the key has ended", "insufficient_scope": ": it lacks introspect"}
Verified = collections.namedtuple("Verified", "ok key_id owner name scopes expires_at metadata parent")
Refused = collections.namedtuple("Refused", "ok status code detail retry_after of")
Answer = collections.namedtuple("Answer", "identity marks holders tell end")  # one that may be used again
class Unavailable(Exception):
    """Nothing is said about the key: answer 429 or 503, as `refused.status` says, and never 401."""
    def __init__(self, refused):
        super().__init__(refused.detail)
        self.refused = refused
class Holder:  # of limits: a key, or its owner. `left`: units that may still be let in from memory
    left = lent = asked = untold = 0
def refused(code, after=None, said={}):
    return Refused(False, CODES[code][0], code, said.get("error_description", CODES[code][1]), after, said.get("of"))
def now():  # by two clocks: either may stand still while the machine sleeps
    return time.monotonic() * 1000, time.time() * 1000
def since(then):
    return max(time.monotonic() * 1000 - then[0], time.time() * 1000 - then[1])
def text(told):
    return " ".join(f"{tell}:{min(units, PAIR_MAX)}" for tell, _, units in told)
class AnyStatus(urllib.request.HTTPErrorProcessor):  # no redirect is followed: what is sent is for this server alone
    http_response = https_response = lambda self, request, response: response

class KeyVerifier:
    def __init__(self, url, id, key, resource=None):
        if not id or not key or not url.startswith(("http://", "https://")) or set(url) & set("@?#"):
            raise ValueError("KeyVerifier: expected an http(s) URL, the id of a key, and the key")
        self._url, self._resource = url.rstrip("/"), {} if resource is None else {"resource": resource}
        basic = ":".join(urllib.parse.quote(part, "") for part in (id, key))
        self._headers = {"Authorization": "Basic " + base64.b64encode(basic.encode()).decode()}
        self._open = urllib.request.build_opener(AnyStatus).open
        self._lock, self._closed, self._begun = threading.RLock(), threading.Event(), threading.Event()
        self._answers, self._by_mark, self._holders, self._untold, self._turns, self._met = {}, {}, {}, {}, {}, {}
        self._cursor, self._known, self._bound, self._ahead = "", None, 0, set()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
    def verify(self, key, scopes=(), cost=1):
        """Decides on a key, from memory where it was asked about before. Returns Verified or Refused."""
        wrong = "missing_api_key" if not key else "invalid_api_key" if not isinstance(key, str) or key[1024:] else None
        if wrong or type(scopes) not in (list, tuple, set, frozenset) or type(cost) is not int or not 1 <= cost <= 1000:
            return refused(wrong or "store_unavailable")
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()  # never the key itself
        return self._recall(key, digest, scopes, cost) or self._ask_in_turn(key, digest, scopes, cost)
    async def verify_token(self, token):
        """For FastMCP and the MCP SDK: an AccessToken; None for a bad key; raises Unavailable for 429 and 503."""
        from mcp.server.auth.provider import AccessToken
        found = await asyncio.get_running_loop().run_in_executor(None, self.verify, token)
        if not found.ok and found.status in (429, 503):
            raise Unavailable(found)
        return AccessToken(token=token, client_id=found.key_id, scopes=list(found.scopes),
                           expires_at=found.expires_at) if found.ok else None
    def known_for_ms(self):
        return math.inf if self._known is None else since(self._known)
    def close(self):
        """Tells, within 2 s, what was let in. Then nobody is let in."""
        end = time.monotonic() + 2
        self._closed.set()
        while self._untold and time.monotonic() < end:
            self._post("/changes", {"wait_ms": "0", "used": text(self._take())}, end - time.monotonic())
        self._listener.join(max(0, end - time.monotonic()))
        self._forget_all()
    def _recall(self, key, digest, scopes, cost):
        with self._lock:
            found = self._answers.get(digest)
            if found is None or self._closed.is_set() or since(self._known) > self._bound or since(found.end) >= 0:
                return None
            if not set(scopes) <= set(found.identity.scopes):
                return refused("insufficient_scope")
            if any(it.left < cost for it in found.holders) or self._untold.get(found.tell, (0, 0))[1] + cost > PAIR_MAX:
                return None
            is_ahead = digest not in self._ahead and any(holder.left < holder.lent / 4 for holder in found.holders)
            for holder in found.holders:
                holder.left, holder.untold = holder.left - cost, holder.untold + cost
            if is_ahead:  # asks for more units; the question is the use of this check, unless it is refused
                self._ahead.add(digest)
                threading.Thread(target=self._ask_ahead, args=(key, digest, found, cost), daemon=True).start()
            else:
                self._untold[found.tell] = (found.holders, self._untold.get(found.tell, (None, 0))[1] + cost)
            return found.identity
    def _ask_ahead(self, key, digest, found, cost):
        self._ask(key, digest, cost, [(found.tell, found.holders, cost)])
        self._ahead.discard(digest)
    def _ask_in_turn(self, key, digest, scopes, cost):  # or waits for another's question of the key
        self._begun.wait(5)
        for _ in range(100):
            turn = self._turns.setdefault(digest, own := {"done": threading.Event()})
            if turn is own:
                break
            turn["done"].wait()
            found = self._recall(key, digest, scopes, cost) if turn["answer"].ok else turn["answer"]
            if found is not None:
                return found
            if turn["once"]:
                break
        answer, once = self._ask(key, digest, cost)
        if turn is own:
            own.update(answer=answer, once=once)
            del self._turns[digest]
            own["done"].set()
        return refused("insufficient_scope") if answer.ok and not set(scopes) <= set(answer.scopes) else answer
    def _ask(self, key, digest, cost, ahead=()):  # a yes that comes too late says nothing: it is asked once more
        tries = (self._question(key, digest, cost, once) for once in (ahead, ()) if not self._closed.is_set())
        return next((answer for answer in tries if answer), (refused("store_unavailable", 1), False))
    def _question(self, key, digest, cost, ahead):  # `ahead`: let in already, and counted by this question
        with self._lock:
            asked, cursor, before = now(), self._cursor, self._answers.get(digest)
            told = self._take(before.holders if before else [])
        form = {"token": key, "lease": cursor, "used": text(told), "cost": str(cost), **self._resource}
        status, retry_after, body = self._post("/introspect", form, 5)
        with self._lock:
            self._settle(told, status)
            self._settle(ahead, 200 if status == 200 else 400)
            is_limit = status == 429 and body.get("error") in ("rate_limited", "quota_exceeded")
            if status != 200 and not is_limit:
                return refused("store_unavailable", 1), False
            self._forget(digest)
            if is_limit or body["active"] is not True:
                return refused(body["error"] if is_limit else "invalid_api_key", retry_after, body), False
            is_late = since(asked) > body["fresh_ms"] + body["bound_ms"]
            return None if is_late else self._good(digest, body, asked, cursor)
    def _good(self, digest, body, asked, cursor):
        identity = Verified(True, body["client_id"], body["sub"], body.get("key_name", ""), body["scope"].split(),
                            body.get("exp"), body.get("metadata", {}), body.get("parent"))
        if "lease_ms" not in body or not cursor or cursor != self._cursor:
            return identity, True
        if len(self._answers) >= KEYS_MAX or len(self._by_mark) + len(self._holders) >= 5 * KEYS_MAX:
            self._forget_all()
        holders = [self._lend(lent, asked[0]) for lent in body["lease_uses"]]
        end = [clock + body["lease_ms"] for clock in asked]
        self._answers[digest] = Answer(identity, body["marks"], holders, body["tell"], end)
        for mark in body["marks"]:
            self._by_mark.setdefault(mark, set()).add(digest)
        return identity, False
    def _lend(self, lent, asked):
        holder = self._holders.setdefault(lent["holder"], Holder())
        if asked >= holder.asked:
            holder.left, holder.lent, holder.asked = lent["units"] - holder.untold, lent["units"], asked
        return holder
    def _forget(self, digest):
        for mark in getattr(self._answers.pop(digest, None), "marks", ()):
            self._by_mark.get(mark, set()).discard(digest)
    def _forget_all(self):
        with self._lock:
            self._answers, self._by_mark = {}, {}
            self._holders = {id: holder for id, holder in self._holders.items() if holder.untold}
    def _take(self, of=None):
        with self._lock:
            meant = [tell for tell, told in self._untold.items() if of is None or any(one in of for one in told[0])]
            return [(tell, *self._untold.pop(tell)) for tell in meant[:TOLD_MAX]]
    def _settle(self, told, status):  # counted or lost; what a 4xx refused is told again
        for tell, holders, units in told:
            if 400 <= status < 500 and status != 429:
                self._untold[tell] = (holders, self._untold.get(tell, (None, 0))[1] + units)
            else:
                for holder in holders:
                    holder.untold -= units
    def _listen(self, pause=0.25):
        while not self._closed.is_set():
            asked, told, within = now(), self._take(), 2 * self._bound / 1000 or 5
            form = {"cursor": self._cursor, "used": text(told), **({"wait_ms": "0"} if told else {})}
            status, retry_after, body = self._post("/changes", form, within)
            with self._lock:
                self._settle(told, status)
                is_news = status == 200 and self._heard(body, asked)
            self._begun.set()
            if status == 200:
                pause = 0.25
                self._closed.wait(0 if is_news else max(0, self._bound / 4 - since(asked)) / 1000)
            elif status or since(asked) < within * 1000:
                self._closed.wait(min(pause, retry_after or math.inf))
                pause = min(2 * pause, 5)
    def _heard(self, body, asked):
        if body.get("all"):
            self._forget_all()
        for digest in [one for mark in body["changed"] for one in self._by_mark.pop(mark, ())]:
            self._forget(digest)
        is_news, self._cursor, self._bound = body["cursor"] != self._cursor, body["cursor"], body["bound_ms"]
        self._known = [clock + body["fresh_ms"] for clock in asked]
        return is_news
    def _post(self, path, form, within):  # status, Retry-After, body; status 0: no response, or a 200 of another server
        sent = urllib.request.Request(self._url + path, urllib.parse.urlencode(form).encode(), self._headers)
        try:
            with self._open(sent, timeout=max(within, 0.01)) as response:
                status, after, sent = response.status, response.headers.get("Retry-After") or "", response.read()
                body = json.loads(sent) if sent.startswith(b"{") else {}
                is_ours = type(body.get("fresh_ms")) is int or "lease" in form and body.get("active") is False
                if not (is_ours and status == 200 or body.get("error") in ("rate_limited", "quota_exceeded")):
                    self._warn(f"POST {path}: got {status}{HINTS.get(str(body.get('error')), '')}")
                return status if is_ours or status != 200 else 0, int(after) if after.isdigit() else None, body
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._warn(str(error))
            return 0, None, {}
    def _warn(self, reason):  # once, until it has not been met for a minute
        before, self._met[reason] = self._met.get(reason, -60), time.monotonic()
        (LOG.warning if self._met[reason] - before >= 60 else LOG.debug)("%s: %s", self._url, reason)

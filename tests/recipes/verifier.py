"""Checks API keys of an mcp-key-server from memory, by the rules in its src/api/README.md."""
import asyncio, base64, collections, hashlib, json, logging, math, os, threading, time, types
import encodings.idna, urllib.request  # the first here, since a fork may come while a thread imports it
from concurrent.futures import Future, ThreadPoolExecutor
KEYS_MAX, TOLD_MAX, PAIR_MAX, AT_ONCE, WAITING_MAX, BODY_MAX = 100_000, 1000, 1_000_000, 64, 500, 1_000_000
LOG, FORKED = logging.getLogger(__name__), threading.Lock()
CODES = {"missing_api_key": (401, "No API key provided"), "invalid_api_key": (401, "Invalid or expired API key"),
         "insufficient_scope": (403, "Insufficient permissions"), "rate_limited": (429, "Rate limit exceeded"),
         "quota_exceeded": (429, "The quota is used up"), "store_unavailable": (503, "Out of reach; try again")}
HINTS = {"invalid_client": ": id or key is wrong, or the key has ended", "insufficient_scope": ": it lacks introspect"}
LATE = "responses come later than the bound allows"
Verified = collections.namedtuple("Verified", "ok key_id owner name scopes expires_at metadata parent")
Refused = collections.namedtuple("Refused", "ok status code detail retry_after of")
Answer = collections.namedtuple("Answer", "identity marks holders tell end")  # one that may be used again
class Unavailable(Exception):
    """Nothing is said about the key: answer 429 or 503, as `refused.status` says, and never 401."""
    refused = property(lambda self: self.args[0])
def refused(code, after=None, said={}):
    return Refused(False, CODES[code][0], code, said.get("error_description", CODES[code][1]), after, said.get("of"))
UNAVAILABLE = refused("store_unavailable", 1)
def now():  # by two clocks: either may stand still while the machine sleeps
    return time.monotonic() * 1000, time.time() * 1000
def since(then):
    return max(time.monotonic() * 1000 - then[0], time.time() * 1000 - then[1])
def later(then, ms):
    return [clock + ms for clock in then]
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
        self._open, self._closed = urllib.request.build_opener(AnyStatus).open, threading.Event()
        self._begin()
    def _begin_anew(self):  # a fork has none of its parent's threads, and locks as they were; Python sees none of uWSGI's
        with FORKED:
            self._process == os.getpid() or self._begin()
    def _begin(self):
        self._closed = self._closed if self._closed.is_set() else threading.Event()
        self._lock, self._begun, self._pool = threading.RLock(), threading.Event(), ThreadPoolExecutor(AT_ONCE)
        self._answers, self._by_mark, self._holders, self._untold, self._limited, self._met = {}, {}, {}, {}, {}, {}
        self._turns, self._questions = {}, {}  # the question of a key that others wait for; the keys of all
        self._waiting = collections.deque(), collections.deque()  # questions about known keys, and about strangers
        self._cursor, self._known, self._bound, self._away = "", None, 0, False
        self._listener, self._process = threading.Thread(target=self._listen, daemon=True), os.getpid()
    def verify(self, key, scopes=(), cost=1):
        """Decides on a key, from memory where it was asked about before. Returns Verified or Refused."""
        async def wait(question):
            return question.result()
        try:
            self._decide(key, scopes, cost, wait).send(None)  # it never waits for anything else
        except StopIteration as decided:
            return decided.value
    async def verify_token(self, token):
        """For FastMCP and the MCP SDK: an AccessToken; None for a bad key; raises Unavailable for 429 and 503."""
        from mcp.server.auth.provider import AccessToken
        found = await self._decide(token, (), 1, lambda question: asyncio.shield(asyncio.wrap_future(question)))
        if not found.ok and found.status in (429, 503):
            raise Unavailable(found)
        return None if not found.ok else AccessToken(token=token, client_id=found.key_id, scopes=list(found.scopes),
            expires_at=found.expires_at, subject=found.owner, claims={**found._asdict(), "metadata": {**found.metadata}})
    def known_for_ms(self):
        return math.inf if self._known is None or self._process != os.getpid() else since(self._known)
    def close(self):
        """Tells, within 2 s, what was let in. Then nobody is let in."""
        end, pause = time.monotonic() + 2, 0.25
        self._process == os.getpid() or self._begin_anew()
        self._closed.set()
        while (self._untold or self._questions or self._listener.is_alive()) and time.monotonic() < end:
            told, within = self._take(), end - time.monotonic()  # what is under way may be refused, and told again
            status, after, _ = self._post("/changes", {"used": text(told)}, within) if told else (429, 0.01, {})
            self._settle(told, 400 if status == 429 else status)
            400 <= status < 500 and time.sleep(max(0, min(pause, after or pause, end - time.monotonic())))
            pause *= 2 if told else 1
        self._pool = self._pool and self._pool.shutdown(wait=False)  # None: what is answered later lets nobody in
        self._forget_all()
    async def _decide(self, key, scopes, cost, wait):  # a question goes on though who waits for it is interrupted
        self._process == os.getpid() or self._begin_anew()
        is_text = isinstance(key, str) and key.isascii()  # no key has other characters
        wrong = "missing_api_key" if not key else "invalid_api_key" if not is_text or key[16384:] else None
        if wrong or type(scopes) not in (list, tuple, set, frozenset) or type(cost) is not int or not 1 <= cost <= 1000:
            wrong or self._warn("verify: expected a list of scopes, and a whole cost from 1 to 1000")
            return refused(wrong or "store_unavailable")
        digest = hashlib.sha256(key.encode()).digest()  # never the key itself
        found, once = self._recall(key, digest, scopes, cost), False
        for _ in range(100):
            if found:
                return found
            with self._lock:
                other = None if once else self._turns.get(digest)
                question = other or self._ask(key, digest, cost)
            answer, once = await wait(question) if question else (UNAVAILABLE, False)
            if other is None or not answer.ok:
                return refused("insufficient_scope") if answer.ok and not set(scopes) <= set(answer.scopes) else answer
            found = self._recall(key, digest, scopes, cost)
        return found or UNAVAILABLE
    def _recall(self, key, digest, scopes, cost):
        with self._lock:
            if self._known is None or self._closed.is_set():
                return None
            found, limited = self._answers.get(digest), self._limited.get(digest)
            if found is None or since(self._known) > self._bound or since(found.end) >= 0 or set(scopes) <= set(
                    found.identity.scopes) and (any(one.left < cost for one in found.holders) or
                                                self._untold.get(found.tell, (0, 0))[1] + cost > PAIR_MAX):
                return limited[0] if limited and cost >= limited[1] and since(limited[2]) < 0 else None
            if not set(scopes) <= set(found.identity.scopes):
                return refused("insufficient_scope")
            for holder in found.holders:
                holder.left, holder.untold = holder.left - cost, holder.untold + cost
            is_scarce = digest not in self._turns and any(holder.left < holder.lent / 4 for holder in found.holders)
            use = (found.tell, found.holders, cost)  # where units get scarce, the use of a question that asks for more
            if not is_scarce or self._ask(key, digest, cost, [use]) is None:
                self._settle([use], 400)
            return found.identity
    def _ask(self, key, digest, cost, ahead=()):  # None: nobody would answer, or too many wait for that
        is_known = digest in self._answers and digest not in self._turns  # strangers must not use up what it is lent
        is_away, is_full = self._away or self._closed.is_set(), len(self._questions) >= AT_ONCE + WAITING_MAX
        if is_away or is_full and not (is_known and self._waiting[1]):
            return None if is_away else self._warn("too many questions at once")
        is_full and self._over(*self._waiting[1].pop()[:2])
        self._listener.ident or self._listener.start()  # not before, since uWSGI can't fork while threads run
        question = Future()
        self._questions[question] = digest
        self._turns.setdefault(digest, question)
        try:
            self._pool.submit(self._work)
            self._waiting[not is_known].append((question, ahead, now(), key, digest, cost))
            return question
        except RuntimeError:  # the program ends
            return self._over(question)
    def _over(self, question, ahead=(), found=None):  # without an answer it was turned away
        with self._lock:
            self._settle(ahead, 400)
            digest = self._questions.pop(question)
            self._turns.get(digest) is question and self._turns.pop(digest)
        question.set_result(found or (UNAVAILABLE, False))
    def _work(self, found=None):
        self._begun.wait(5)
        with self._lock:
            while (self._away or self._closed.is_set()) and any(self._waiting):
                self._over(*(self._waiting[0] or self._waiting[1]).pop()[:2])
            if not any(self._waiting):
                return
            question, ahead, came, key, digest, cost = (self._waiting[0] or self._waiting[1]).popleft()
        try:
            for once in (ahead, ()):  # a yes that comes too late says nothing: it is asked once more
                found = found or self._pool and self._question(came, key, digest, cost, once)
        except Exception as error:
            self._warn(f"got what is no answer: {error!r}")
        self._over(question, (), self._pool and found)
    def _question(self, came, key, digest, cost, ahead):  # `ahead`: let in already, and counted by this question
        with self._lock:
            asked, cursor, before = now(), self._cursor, self._answers.get(digest)
            told = self._take(before.holders if before else [])
            within = 5 if self._known is None else min(5, max(1, 2 * self._bound / 1000))
        form = {"token": key, "lease": cursor, "used": text(told), "cost": str(cost), **self._resource}
        status, retry_after, body = self._post("/introspect", form, max(1, within - since(came) / 1000))
        with self._lock:
            told = [*told, *ahead] if status == 200 else told
            self._settle(told, status)
            self._settle(ahead if status != 200 else [], 400)
            is_limit = status == 429 and body.get("error") in ("rate_limited", "quota_exceeded")
            self._away = self._away or status == 0  # nobody waits any more, until the server answers the loop
            if status != 200 and not is_limit:
                return UNAVAILABLE, False
            self._forget(digest)
            if is_limit:
                found = refused(body["error"], retry_after, body)
                len(self._limited) < KEYS_MAX or self._limited.clear()
                self._limited[digest] = (found, cost, later(asked, 1000 * min(1, retry_after or 0)))
                return found, False
            if body["active"] is not True:
                return refused("invalid_api_key"), False
            is_late = since(asked) > body["fresh_ms"] + body["bound_ms"]
            return self._warn(LATE) if is_late else self._good(digest, body, asked, cursor, told)
    def _good(self, digest, body, asked, cursor, told):
        scopes, metadata = tuple(body["scope"].split()), types.MappingProxyType(body.get("metadata", {}))
        identity = Verified(True, body["client_id"], body["sub"], body.get("key_name", ""), scopes, body.get("exp"),
                            metadata, body.get("parent"))  # all checks of the key get the same, so nobody may change it
        if not {"lease_ms", "lease_uses", "marks", "tell"} <= set(body) or not cursor or cursor != self._cursor:
            return identity, True
        (len(self._answers) >= KEYS_MAX or len(self._by_mark) + len(self._holders) >= 5 * KEYS_MAX) and self._forget_all()
        holders = [self._lend(lent, asked[0], told) for lent in body["lease_uses"]]
        self._answers[digest] = Answer(identity, body["marks"], holders, body["tell"], later(asked, body["lease_ms"]))
        for mark in body["marks"]:
            self._by_mark.setdefault(mark, set()).add(digest)
        return identity, False
    def _lend(self, lent, asked, told):  # less what was let in, and not told with the question
        new = types.SimpleNamespace(left=0, lent=0, asked=0, untold=0, settled=[])  # `left`: units that may be let in
        holder = self._holders.setdefault(lent["holder"], new)  # of limits: a key, or its owner
        if asked >= holder.asked:
            elsewhere = sum(units for at, units, by in holder.settled if at >= asked and by is not told)
            holder.left, holder.lent, holder.asked = lent["units"] - holder.untold - elsewhere, lent["units"], asked
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
        with self._lock:
            at = time.monotonic() * 1000
            for tell, holders, units in told:
                if 400 <= status < 500 and status != 429:
                    self._untold[tell] = (holders, self._untold.get(tell, (None, 0))[1] + units)
                else:
                    for holder in holders:
                        holder.untold -= units
                        holder.settled = [*(one for one in holder.settled if at - one[0] < 15_000), (at, units, told)]
    def _listen(self, pause=0.25):
        while not self._closed.is_set():
            asked, told, within = now(), self._take(), 2 * self._bound / 1000 or 5
            is_all, form = len(told) < TOLD_MAX, {"cursor": self._cursor, "used": text(told)}
            status, retry_after, body = self._post("/changes", form, within)
            with self._lock:
                self._settle(told, 400 if status == 429 else status)
                status == 200 and self._heard(body, asked)
            self._begun.set()
            if status == 200:
                pause = 0.25
                self._closed.wait(max(0, self._bound / 4 - since(asked)) / 1000 if is_all else 0)
            elif status or since(asked) < within * 1000:
                self._closed.wait(min(pause, retry_after if retry_after is not None else math.inf))
                pause = min(2 * pause, 5)
    def _heard(self, body, asked):
        body.get("all") and self._forget_all()
        for digest in [one for mark in map(str, body["changed"]) for one in self._by_mark.pop(mark, ())]:
            self._forget(digest)
        self._cursor, self._bound, self._away = body["cursor"], body["bound_ms"], False
        self._known = later(asked, body["fresh_ms"])
        since(self._known) > self._bound and self._warn(LATE)
    def _post(self, path, form, within):  # status, Retry-After, body; status 0: no response, or a 200 of another server
        sent = urllib.request.Request(self._url + path, urllib.parse.urlencode(form).encode(), self._headers)
        try:
            with self._open(sent, timeout=max(within, 0.01)) as response:
                status, after, sent = response.status, response.headers.get("Retry-After") or "", response.read(BODY_MAX)
                body = json.loads(sent) if sent.startswith(b"{") else {}
                kinds = [type(body.get(name)) for name in ("fresh_ms", "bound_ms", "cursor", "changed")]
                is_yes, is_no = kinds[:2] == [int, int], body.get("active") is False
                is_ours = is_yes or is_no if "lease" in form else kinds == [int, int, str, list]
                if not (is_ours and status == 200 or body.get("error") in ("rate_limited", "quota_exceeded")):
                    self._warn(f"POST {path}: got {status}{HINTS.get(str(body.get('error')), '')}")
                return status if is_ours or status != 200 else 0, int(after) or None if after.isdecimal() else None, body
        except Exception as error:  # whatever it is, the server can't be asked; and the loop goes on
            self._warn(str(error))
            return 0, None, {}
    def _warn(self, reason):  # once, until it has not been met for a minute
        before, self._met[reason] = self._met.get(reason, -60), time.monotonic()
        (LOG.warning if self._met[reason] - before >= 60 else LOG.debug)("%s: %s", self._url, reason)

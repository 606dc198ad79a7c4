"""Runs a small program a few times while the image is made, so that every guest begins where the interpreter has seen one.

CPython rewrites code while it runs, for the types that it meets, and numbers types and dictionaries on first use. What is
rewritten here each guest shares; what is not each writes for itself, page by page, and carries in its snapshots.
"""

import _host

# Every path that an ordinary program takes, a caught refusal and an ask included.
_PROGRAM = '''
import json, math, datetime, re

def total(lines):
    return round(sum(line["price"] * line["quantity"] for line in lines), 2)

order = warm.get(order_id=inputs["id"], exact=True)
lines = [line for line in order["lines"] if line["sku"] not in ("none", None)]
by_sku = {line["sku"]: line for line in sorted(lines, key=lambda line: line["price"])}
print(f"order {order['id']}: {len(lines)} lines, {total(lines):.2f}", len(by_sku))
try:
    warm.put(order_id=order["id"], amount=total(lines), note=None)
except stasis.Denied as refusal:
    print(f"no: {refusal}")
for one in stasis.parallel(warm.get.later(order_id="a"), warm.get.later(order_id="b"), errors="return"):
    assert not isinstance(one, Exception)
decision = stasis.ask("Really?", {"amount": 1.5}, roles=["finance"], lease="24h")
stasis.sleep(5)
stasis.log("done", text=json.dumps(order), ok=bool(decision))
stasis.last()
result = {"refunded": total(lines), "left": math.floor(2.5), "matches": re.findall("[0-9]+", "a1b22")}
'''
_FAILING = "def fail():\n    raise ValueError('warm')\nfail()\n"
_NAME = "warm.py"
_ORDER = """{"id":"o-1","paid":10.5,"lines":[{"sku":"a","price":1.25,"quantity":2},{"sku":"b","price":4,"quantity":1}]}"""
_OK = '{"n":1,"call":"warm/1","approval":null,"status":"ok","result":%s,"edited":null}'
_DENIED = (
    '{"n":1,"call":"warm/1","approval":null,"status":"denied","error":{"code":"approval_rejected","message":"no",'
    '"detail":{"status":"rejected","by":["a"],"reason":"b"},"applied":null},"edited":null}'
)
_DECIDED = '{"status":"approved","by":["a"],"at":"2026-11-30T10:00:00Z"}'
_TIMES = 8


def _answer(bodies, batch):
    if batch:
        return ("[" + ",".join(_OK % _ORDER for _ in bodies) + "]").encode()
    (body,) = bodies
    if b'"warm.put"' in body:
        return _DENIED.encode()
    return (_OK % (_DECIDED if b'"stasis.gate"' in body else _ORDER)).encode()


def _frame(source):
    import json
    import marshal

    start = {"name": _NAME, "source": source, "inputs": {"id": "o-1"}, "modules": {"warm": {"get": "", "put": "Puts."}}}
    head = json.dumps(start).encode()
    return len(head).to_bytes(4, "little") + head + marshal.dumps(compile(source, _NAME, "exec", dont_inherit=True))


def warm(run):
    """Runs the programs by `run` with the door to the host shut, and leaves nothing of them but what the interpreter learnt."""
    import linecache
    import sys

    from stasis import _calls

    ends = []
    door = _host.call, _host.log, _host.end
    main = sys.modules["__main__"]
    _host.call, _host.log, _host.end = _answer, (lambda line: None), (lambda kind, body: ends.append((kind, bytes(body))))
    for _ in range(_TIMES):
        for source in (_PROGRAM, _FAILING):
            run(_frame(source))
    _host.call, _host.log, _host.end = door
    if [kind for kind, _ in ends] != [0, 1] * _TIMES:
        raise SystemError(f"the warming programs ended otherwise: {ends[:2]}")
    sys.modules["__main__"] = main
    del sys.modules["warm"], linecache.cache[_NAME]
    sys.argv[:] = []
    _calls._last = None

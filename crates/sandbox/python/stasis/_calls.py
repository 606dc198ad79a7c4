"""Calls: pending ones, single ones, batches, and what is remembered of the last."""

import _host

from . import _errors, _json


class Pending:
    """A call that is not made yet: `later` makes one, `parallel` and `first` take them. Its arguments are fixed already."""

    __slots__ = ("_tool", "_arguments", "_convert", "_settle", "_waits")

    def __init__(self, tool, arguments, convert=None, settle=None, waits=False):
        self._tool = tool
        self._arguments = _json.encode(arguments, "arguments")
        self._convert = convert
        self._settle = settle
        self._waits = waits

    def __repr__(self):
        return f"<pending {self._tool}>"

    def _text(self):
        return f'"tool":{_json.encode(self._tool, "tool")},"arguments":{self._arguments}}}'

    def _finish(self, status, reply):
        """The value of a reply, or an exception, which is returned and not raised."""
        if status == "ok":
            value = reply["result"]
            return self._convert(value) if self._convert else value
        error = reply["error"]
        if self._settle and error["code"] in ("approval_rejected", "approval_expired"):
            return self._settle(error["detail"])
        return _errors.of_reply(status, error, self._tool, reply.get("call", ""))


_on_edit = "return"
_last = None


def call(pending):
    """Makes one call."""
    reply = _json.decode(_host.call((pending._text().encode(),), False))
    outcome = _outcome(pending, reply)
    if isinstance(outcome, _errors.ToolError):
        raise outcome
    return outcome


def parallel(*pending, errors="raise"):
    """Makes 1 to 64 pending calls as one batch, and returns their results in list order.

    All that need an approval ask at once. With `errors="raise"` the first error in list order is raised after all have
    ended, and its `.outcomes` holds every outcome; with `errors="return"` exceptions stand in the list.
    """
    if errors not in ("raise", "return"):
        raise ValueError("errors is 'raise' or 'return'")
    for one in pending:
        if not isinstance(one, Pending):
            raise TypeError(f"parallel takes what .later returns, not {type(one).__name__}")
    replies = _json.decode(_host.call(tuple(one._text().encode() for one in pending), True))
    if isinstance(replies, dict):
        # Refused as a whole: no call of it was made.
        refused = [_outcome(one, replies) for one in pending] or [_outcome(Pending("stasis.parallel", {}), replies)]
        if errors == "raise" or not pending:
            raise refused[0]
        return refused
    outcomes = [_outcome(one, reply) for one, reply in zip(pending, replies, strict=True)]
    if errors == "raise":
        for outcome in outcomes:
            if isinstance(outcome, _errors.ToolError):
                outcome.outcomes = outcomes
                raise outcome
    return outcomes


def first(*waits):
    """Waits for the first of several gates, signals, timers and jobs, each made with `.later`: `(index, value)`."""
    for one in waits:
        if not isinstance(one, Pending) or not one._waits:
            raise TypeError("first takes gates, signals, timers and jobs made with .later")
    arguments = ",".join("{" + one._text() for one in waits)
    pending = Pending("stasis.first", {})
    pending._arguments = f'{{"waits":[{arguments}]}}'
    winner = call(pending)
    index = winner["index"]
    value = waits[index]._finish(winner["status"], winner)
    if isinstance(value, _errors.ToolError):
        raise value
    return index, value


def last():
    """Facts of the last finished call, or None before the first. Makes no call."""
    if _last is None:
        return None
    pending, reply = _last
    arguments = reply.get("edited")
    return {
        "id": reply.get("call"),
        "tool": pending._tool,
        "outcome": reply["status"],
        "edited": arguments is not None,
        "arguments": _json.decode(pending._arguments) if arguments is None else arguments,
        "approval": reply.get("approval"),
    }


def on_edit(mode):
    """What a call does from now on whose arguments an approver edited: `"return"` its result, or `"raise"` Edited."""
    global _on_edit
    if mode not in ("return", "raise"):
        raise ValueError("on_edit takes 'return' or 'raise'")
    _on_edit = mode


def _outcome(pending, reply):
    global _last
    _last = (pending, reply)
    value = pending._finish(reply["status"], reply)
    if reply["status"] == "ok" and reply.get("edited") is not None and _on_edit == "raise":
        return _errors.Edited(
            "an approver edited the arguments", result=value, code="edited", detail={"arguments": reply["edited"]},
            tool=pending._tool, call=reply.get("call", ""), applied=True,
        )
    return value

"""What a program can catch: one class for each way in which a call can end badly."""


class ToolError(Exception):
    """A call that did not end `ok`.

    `.code` is the wire code, `.message` its fixed text, `.detail` what is known besides, `.tool` the tool's name and `.call`
    the call's identity.
    """

    def __init__(self, message, *, code="", detail=None, tool="", call="", applied=None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.tool = tool
        self.call = call
        self.applied = applied

    def __str__(self):
        return f"{self.tool}: {self.message} ({self.code})" if self.tool else self.message

    def __reduce__(self):
        return (_again, (type(self), self.args, self.__dict__))


class BadRequest(ToolError):
    """The request itself was malformed or too large. Nothing was counted."""


class Denied(ToolError):
    """The call was refused. Nothing ran, and nothing ever will under it."""


class Rejected(Denied):
    """A person said no. `.reason` is what they wrote, `.by` who they are."""

    @property
    def reason(self):
        return _field(self.detail, "reason", None)

    @property
    def by(self):
        return _field(self.detail, "by", [])


class Expired(Denied):
    """Nobody answered in time."""


class BudgetExceeded(Denied):
    """The run, or the tool, has no calls left."""


class Failed(ToolError):
    """The tool failed. `.applied` says whether its effect took place all the same: True, False, or None if unknown."""


class JobFailed(ToolError):
    """A delegated job ended otherwise than succeeded. `.status` says how."""

    @property
    def status(self):
        return _field(self.detail, "status", None)


class Edited(ToolError):
    """The call was done, but with arguments that an approver had edited. `.result` is its result.

    Raised only after `stasis.on_edit("raise")`.
    """

    def __init__(self, message, *, result=None, **facts):
        super().__init__(message, **facts)
        self.result = result


def _field(detail, name, default):
    return detail.get(name, default) if isinstance(detail, dict) else default


def _again(cls, args, facts):
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


_BAD_REQUESTS = {"request_too_large", "invalid_json", "invalid_request"}
_BY_CODE = {
    "approval_rejected": Rejected,
    "approval_expired": Expired,
    "expired_before_dispatch": Expired,
    "wait_expired": Expired,
    "call_budget_exceeded": BudgetExceeded,
    "tool_budget_exceeded": BudgetExceeded,
}


def of_reply(status, error, tool, call):
    """The exception for an answer whose status is not `ok`."""
    code = error["code"]
    if code in _BAD_REQUESTS:
        cls = BadRequest
    elif status == "denied" or code in _BY_CODE:
        cls = _BY_CODE.get(code, Denied)
    else:
        cls = JobFailed if code == "job_ended" else Failed
    return cls(error["message"], code=code, detail=error["detail"], tool=tool, call=call, applied=error["applied"])


for _cls in (ToolError, BadRequest, Denied, Rejected, Expired, BudgetExceeded, Failed, JobFailed, Edited):
    _cls.__module__ = "stasis"

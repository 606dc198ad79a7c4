"""How a guest starts: what the image holds, and how one program is run in it.

Imported once, when the image is made; everything it leaves in memory is what each guest begins with.
"""

import builtins
import gc
import io
import json
import linecache
import marshal
import sys
import traceback
import types

import _host

import _image

_image.prepare()

import _warm
import stasis
from stasis import JobFailed, ToolError, _json, _tools

# How a program ends; the host's `Ending` has the same numbers.
_END_RESULT, _END_RAISED, _END_RESULT_INVALID, _END_SOURCE_FAULT, _END_CHECKED = range(5)

# In characters. All of them together stay below what the host takes.
_LONGEST_NAME = 256
_LONGEST_MESSAGE = 4_096
_LONGEST_TRACEBACK = 65_536
_INTERNAL = "/lib/stasis/"

# Given back before the report of an uncaught MemoryError is made.
_RESERVE_BYTES = 1 << 18
_reserve = bytearray(_RESERVE_BYTES)


def run(body):
    """Runs the program of a start frame, and tells the host how it ended.

    The frame holds the length of its JSON, the JSON, and the program's code as `check` gave it. Compiling here would leave
    the compiler's garbage in the memory of every guest, and so in its snapshots. Without code the source does not compile.
    """
    length = int.from_bytes(body[:4], "little")
    start = json.loads(body[4 : 4 + length])
    code = body[4 + length :]
    name = start["name"]
    source = start["source"].removeprefix("\ufeff")
    main = _main(name, start)
    _remember_source(name, source)
    try:
        exec(marshal.loads(code) if code else compile(source, name, "exec", dont_inherit=True), main)
    except SystemExit as exit:
        code = SystemExit.code.__get__(exit)
        if code is None or type(code) in (int, bool) and not code:
            _finish(main)
        else:
            _report(exit, code, name)
    except BaseException as error:
        _report(error, error, name)
    else:
        _finish(main)


def check(body):
    """Compiles a source, and tells the host whether it can be run, and with which code."""
    import warnings

    start = json.loads(body)
    warnings.simplefilter("ignore")
    try:
        code = compile(start["source"].removeprefix("\ufeff"), start["name"], "exec", dont_inherit=True)
    except SyntaxError as error:
        _end_source_fault(error.lineno or 1, error.offset or 1, error.msg or "invalid syntax")
    except Exception as error:
        _end_source_fault(1, 1, f"{type(error).__name__}: {error}")
    else:
        _host.end(_END_CHECKED, marshal.dumps(code))


def _end_source_fault(line, column, text):
    fault = {"line": line, "column": max(column, 1), "text": text}
    _host.end(_END_SOURCE_FAULT, json.dumps(fault).encode())


def _main(name, start):
    """Fills the real `__main__`, so that classes of the program can be pickled, and gives its names."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    plan = _tools.modules(start["modules"])
    sys.modules.update(plan)
    sys.argv[:] = [name]
    module.__dict__.update(
        plan, __builtins__=builtins, __file__=name, stasis=stasis, inputs=start["inputs"], result=None
    )
    return module.__dict__


def _remember_source(name, source):
    """Lets tracebacks show the program's lines, which are told apart when one is shown."""
    linecache.cache[name] = (lambda: source,)


def _finish(main):
    _leave()
    try:
        text = _json.encode(main.get("result"), "result")
    except TypeError as error:
        _host.end(_END_RESULT_INVALID, str(error).encode("utf-8", "backslashreplace"))
    else:
        _host.end(_END_RESULT, text.encode())


def _leave():
    """What Python does when it exits, as far as a guest has it."""
    import atexit

    atexit._run_exitfuncs()
    _image.end_output()


def _report(error, said, name):
    """Tells of an exception that ended the program; `said` is what its message is made of."""
    global _reserve
    _reserve = None
    raised = {
        "class": _told(_class_name, error, _LONGEST_NAME, "Exception"),
        "message": _told(_text, said, _LONGEST_MESSAGE, ""),
        "line": _line(error, name),
        "traceback": _told(_traceback, error, 2 * _LONGEST_TRACEBACK, "its traceback could not be made\n"),
        "code": None,
        "job_failed": issubclass(type(error), JobFailed),
    }
    if issubclass(type(error), ToolError):
        raised["code"] = _told(_code, error, _LONGEST_NAME, None)
    # Only now: a destructor or an exit function may use the exception.
    _leave()
    _host.end(_END_RAISED, json.dumps(raised).encode())


def _told(make, about, most, otherwise):
    """Text that `make` makes of a thing of the program, which may do what it likes meanwhile, as text that can leave."""
    try:
        text = str.__getitem__(make(about), slice(most))
        return text.encode("utf-8", "backslashreplace").decode()
    except BaseException:
        return otherwise


def _class_name(error):
    cls = type(error)
    module = cls.__module__
    return cls.__qualname__ if module in ("builtins", "__main__") else f"{module}.{cls.__qualname__}"


def _text(said):
    try:
        return str(said)
    except BaseException as second:
        return f"<its text could not be made: {type(second).__name__}>"


def _code(error):
    return error.code


def _trace(error):
    # The exception's own, whatever its class says.
    return BaseException.__traceback__.__get__(error)


def _line(error, name):
    """The last line of the program that was on the stack."""
    line, trace = None, _trace(error)
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _traceback(error):
    """The traceback as Python prints it, without the frames of this package."""
    try:
        trace = _trace(error) and _trace(error).tb_next
        summary = traceback.TracebackException(type(error), error, trace, compact=True)
        _trim(summary, set())
        text = "".join(summary.format())
    except (MemoryError, RecursionError):
        text = f"{type(error).__name__}: its traceback could not be made\n"
    if len(text) > _LONGEST_TRACEBACK:
        half = _LONGEST_TRACEBACK // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    return text


def _trim(summary, seen):
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    own = [frame for frame in summary.stack if not frame.filename.startswith(_INTERNAL)]
    summary.stack = traceback.StackSummary.from_list(own)
    _trim(summary.__cause__, seen)
    _trim(summary.__context__, seen)
    for inner in getattr(summary, "exceptions", None) or ():
        _trim(inner, seen)


_image.seal()
_warm.warm(run)
_reserve = bytearray(_RESERVE_BYTES)
# Room for programs, in the pieces that the allocator of small objects asks for: a guest whose memory never grew leaves it to
# the next one.
_room = [bytearray(1_100_000) for _ in range(3)]
del _room
gc.collect()
gc.freeze()

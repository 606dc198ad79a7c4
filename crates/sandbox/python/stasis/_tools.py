"""The modules of the plan: one object for each function that a program may call."""

import difflib
import types

from ._calls import Pending, call


class Tool:
    """A function of the plan. Called with keyword arguments it makes one call; `.later` makes a pending one."""

    def __init__(self, module, name, description):
        self.__module__ = module
        self.__name__ = name
        self.__doc__ = description
        self._tool = f"{module}.{name}"

    def __call__(self, /, *args, **arguments):
        return call(self._pending(args, arguments))

    def later(self, /, *args, **arguments):
        """A pending call, for `stasis.parallel`. Makes no call itself."""
        return self._pending(args, arguments)

    def _pending(self, args, arguments):
        if args:
            raise TypeError(f"{self._tool} takes keyword arguments only")
        return Pending(self._tool, arguments)

    def __repr__(self):
        return f"<tool {self._tool}>"

    def __reduce__(self):
        return (_again, (self.__module__, self.__name__))


class ToolModule(types.ModuleType):
    """A module of the plan."""

    def __getattr__(self, name):
        known = [known for known in self.__dict__ if not known.startswith("_")]
        near = difflib.get_close_matches(name, known, 1, 0)
        hint = f"; the nearest is {near[0]!r}" if near else ""
        raise AttributeError(f"{self.__name__} has no function {name!r} in this plan{hint}", name=name, obj=None)


def modules(plan):
    """`{module: {function: description}}` as modules."""
    made = {}
    for module, functions in plan.items():
        made[module] = ToolModule(module, f"Tools of this run's plan: {', '.join(functions)}.")
        for name, description in functions.items():
            setattr(made[module], name, Tool(module, name, description))
    return made


def _again(module, name):
    import sys

    return getattr(sys.modules[module], name)

# /// script
# [tool.stasis]
# title = "A first program"
# tools = []
# input = { type = "object", properties = { name = { type = "string" } } }
# ///
"""Asks a person before it greets.

Run it:     stasis run hello.py
Answer it:  on the terminal, or later by `stasis approve ID` or `stasis reject ID --reason ...`

While it waits nothing of it stays in memory, and it may be killed: it comes back to exactly this place.
"""

name = inputs.get("name", "world")
print(f"asking before greeting {name}")

# `ask` returns the decision whatever it is; `gate` raises unless it is a yes.
decision = stasis.ask(f"Greet {name}?", {"name": name})

if decision:
    result = {"greeting": f"Hello, {name}!", "approved_by": list(decision.by)}
else:
    result = {"greeting": None, "status": decision.status}

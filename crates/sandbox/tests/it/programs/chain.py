# Calls a tool from the strangest places of the language. Frozen and thawed in a new process at every call, this program must
# end as it does when nothing interrupts it. Each section puts what it saw into `out`, which is the result.
import abc, array, ast, asyncio, atexit, bisect, codecs, collections, contextlib, contextvars, copy, copyreg, csv, dataclasses
import decimal, enum, fractions, functools, gc, heapq, importlib.abc, importlib.machinery, io, itertools, json, logging
import operator, pickle, random, re, statistics, string, struct, sys, time, types, typing, uuid, warnings, weakref
import xml.parsers.expat

out = []
put = out.append


def T(i):
    return demo.get(i=i)


def show(*values):
    put([repr(value) for value in values])


# ---- every protocol of an object ----
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): return hash(T(self.v))
    def __eq__(self, other): return T(self.v) == T(other.v if isinstance(other, K) else 1)
    def __lt__(self, other): return T(self.v) < T(other.v)
    def __bool__(self): return T(self.v) > 100
    def __int__(self): return T(self.v)
    def __index__(self): return T(self.v) // 100
    def __float__(self): return float(T(self.v))
    def __complex__(self): return complex(T(self.v))
    def __len__(self): return T(self.v) // 100
    def __length_hint__(self): return T(self.v) // 100
    def __contains__(self, item): return T(item) == 200
    def __getitem__(self, i):
        if isinstance(i, slice): return T(i.start or 0), i.step
        if i > 2: raise IndexError
        return T(i)
    def __setitem__(self, i, value): put(["set", i, T(value)])
    def __delitem__(self, i): put(["del", T(i)])
    def __call__(self, *args, **named): return T(args[0] if args else named["i"])
    def __format__(self, spec): return f"<{T(self.v)}:{spec}>"
    def __repr__(self): return f"K{T(self.v)}"
    def __reduce__(self): return K, (T(self.v) // 100,)
    def __deepcopy__(self, memo): return K(T(self.v) // 100 + 1)
    def __iadd__(self, other): self.v = T(other) // 100; return self
    def __add__(self, other): return T(other) + 1
    def __radd__(self, other): return T(other) + 2
    def __rsub__(self, other): return T(other) - 2
    def __neg__(self): return -T(self.v)
    def __invert__(self): return ~T(self.v)
    def __pow__(self, other, modulus=None): return T(other), modulus
    def __matmul__(self, other): return T(other)
    def __enter__(self): return T(1)
    def __exit__(self, *exc): put(["exit", exc[0] and exc[0].__name__, T(2)]); return True
    def __round__(self, n=None): return T(4)
    def __trunc__(self): return T(4)
    def __divmod__(self, other): return T(5), T(6)
    def __reversed__(self): return iter([T(7)])
    def __bytes__(self): return b"%d" % T(8)
    def __dir__(self): return [f"n{T(3)}"]
    def __sizeof__(self): return T(9)


table = {K(1): "a"}
table[K(2)] = "b"
show(table.get(K(2)), sorted([K(3), K(1), K(2)]), bool(K(2)), int(K(2)), [10, 20, 30, 40][K(2)], float(K(2)), complex(K(1)))
show(len(K(2)), 2 in K(1), list(K(0)), operator.length_hint(K(3)), K(1)[2:9:3], -K(1), ~K(1), pow(K(1), 2, 5), 1 + K(1), 5 - K(1))
k = K(1)
k[3] = 4
del k[5]
show(k(6), k(i=7), f"{k:x}", "{0:>3}".format(k), "%s" % k, copy.deepcopy(k))
k += 3
show(k.v, k @ 2, round(k), divmod(k, 1), list(reversed(k)), bytes(k), dir(k), [1, 2, 3, 4, 5][K(1):K(4)])
with k as entered:
    put(entered)
    raise ValueError("swallowed")

# ---- built-in functions that call back ----
show(sum(T(i) for i in range(3)), ",".join(str(T(i)) for i in range(3)), list(filter(lambda x: T(x) > 100, [1, 2])))
show(list(iter(lambda c=itertools.count(): T(next(c)), 300)), list(map(K, [1, 2])), max([3, 1, 2], key=T), min([], default=T(9)))
show(any(T(i) > 100 for i in range(3)), all(T(i) < 100 for i in range(3)), sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: T(a) - T(b))))
items = [3, 1, 2]
items.sort(key=T, reverse=True)
show(items, [K(1), K(2)].index(K(2)), [K(1)].count(K(1)), (K(1), K(3)) < (K(1), K(4)), {K(1), K(2)} & {K(2)})
show(dict(zip([1, 2], (T(i) for i in (1, 2)))), "abc".translate(type("Tr", (), {"__getitem__": lambda s, c: chr(T(c - 96) // 100 + 96)})()))
buffer = bytearray()
buffer.extend(T(i) // 100 for i in (1, 2))
numbers = array.array("i", (T(i) for i in (3, 4)))
deque = collections.deque((T(i) for i in range(3)), maxlen=2)
show(buffer, numbers, deque, struct.pack("<h", K(3)), hash((K(1), K(2))) == hash((100, 200)), getattr(K(1), "missing", T(5)))


class Keys:
    def keys(self): return [T(1), T(2)]
    def __getitem__(self, key): return T(key // 100)


plain = {}
plain.update(Keys())
show(plain, {**Keys()}, dict(Keys()), (lambda **named: named)(**{"a": T(1)}))

# ---- itertools, functools, operator, heapq, bisect ----
show(functools.reduce(lambda a, b: a + T(b), [1, 2, 3], 0), list(itertools.accumulate([1, 2, 3], lambda a, b: a + T(b))))
show(list(itertools.groupby([1, 1, 2], key=T))[0][0], list(itertools.takewhile(lambda x: T(x) < 300, [1, 2, 3])))
show(list(itertools.dropwhile(lambda x: T(x) < 200, [1, 2, 3])), list(itertools.starmap(lambda a, b: T(a + b), [(1, 2)])))
show([list(group) for group in itertools.batched((T(i) for i in range(3)), 2)], list(itertools.filterfalse(T, [0, 1])))
heap = []
heapq.heappush(heap, K(2))
heapq.heappush(heap, K(1))
show(heapq.heappop(heap), list(heapq.merge([1], [2], key=T)), heapq.nlargest(1, [1, 3, 2], key=T), bisect.bisect([1, 2, 3], 2, key=lambda x: T(x) // 100))


@functools.lru_cache
def cached(n): return T(n)


@functools.singledispatch
def dispatched(value): return "other", T(1)


@dispatched.register
def _(value: int): return "int", T(2)


@functools.total_ordering
class Ordered:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return T(self.n) == T(getattr(other, "n", 0))
    def __lt__(self, other): return T(self.n) < T(other.n)


class Lazy:
    @functools.cached_property
    def value(self): return T(4)
    @property
    def prop(self): return T(5)
    @prop.setter
    def prop(self, new): put(["prop", T(new)])
    @prop.deleter
    def prop(self): put(["prop gone", T(6)])
    @classmethod
    def of(cls, n): return cls, T(n)
    def __getattr__(self, name): return T(len(name))
    def __class_getitem__(cls, item): return T(item)


lazy = Lazy()
lazy.prop = 3
del lazy.prop
show(cached(3) + cached(3), dispatched(1), dispatched("x"), Ordered(2) >= Ordered(1), lazy.value + lazy.value, lazy.prop, Lazy.of(1)[1], lazy.abcd, Lazy[2])
show(functools.partial(T, 8)(), operator.methodcaller("__call__", 2)(K(1)), operator.attrgetter("abc")(lazy), operator.itemgetter(1, 2)(K(0)))

# ---- classes: metaclasses, descriptors, hooks ----
class Meta(type):
    @classmethod
    def __prepare__(mcs, name, bases, **options): return {"prepared": T(1)}
    def __new__(mcs, name, bases, space, **options):
        space["tagged"] = T(2)
        return super().__new__(mcs, name, bases, dict(space))
    def __call__(cls, *args): put(["called", T(3)]); return super().__call__(*args)
    def __instancecheck__(cls, instance): return T(2) == 200
    def __subclasscheck__(cls, other): return T(1) == 200
    def __iter__(cls): return iter([T(4)])
    def __setattr__(cls, name, value): super().__setattr__(name, (value, T(5)))


class Base(metaclass=Meta, option=1):
    def __init_subclass__(cls, **options): cls.sub = T(3)


class Derived(Base):
    def __getattribute__(self, name):
        if name == "magic": return T(7)
        return super().__getattribute__(name)


Base.late = 1
show(Base.tagged, Base.prepared, Derived.sub, isinstance(5, Base), issubclass(int, Base), list(Base), Base.late, Derived().magic)


class Descriptor:
    def __set_name__(self, owner, name): self.name = name, T(4)
    def __get__(self, instance, owner): return T(5), self.name
    def __set__(self, instance, value): put(["dset", T(value)])
    def __delete__(self, instance): put(["ddel", T(6)])


class Described: x = Descriptor()


described = Described()
described.x = 3
del described.x


class Hook(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other): return T(1) == 100


class Colour(enum.Enum):
    RED = T(1)
    @classmethod
    def _missing_(cls, value): return cls.RED if T(2) else None


@dataclasses.dataclass(order=True)
class Data:
    x: int = dataclasses.field(default_factory=lambda: T(8))
    def __post_init__(self): self.y = T(9)


class Named(typing.NamedTuple):
    a: int = T(3)


show(described.x, issubclass(int, Hook), Colour(99), Data(), Data() < Data(1), Data().y, Named(), types.SimpleNamespace(a=T(1)).a)


class Text(str):
    def __eq__(self, other): return T(1) == 100
    __hash__ = str.__hash__


match {"k": K(1), "d": Data(1)}:
    case {"k": K() as found, "d": Data(x=1)} if T(1) == 100: put(["matched", T(2)])
show(Text("a") == "b", {"a": 1}.get(Text("a")), [*map(lambda x, y: T(x) + T(y), [1], [2])])

# ---- generators, coroutines, contexts ----
def gen():
    try:
        x = yield T(1)
        put(["sent", x])
        yield T(x)
    except KeyError:
        yield T(3)
    finally:
        put(["closed", T(9)])


def delegating():
    result = yield from gen()
    return result


g = gen()
show(next(g), g.send(4))
g.close()
g = delegating()
show(next(g), g.throw(KeyError("k")))
del g


@contextlib.contextmanager
def managed():
    put(T(1))
    try:
        yield T(2)
    except ValueError:
        put(["caught", T(3)])


with managed() as value, contextlib.ExitStack() as stack:
    stack.callback(lambda: put(["callback", T(4)]))
    stack.push(lambda *exc: put(["pushed", exc[0] and exc[0].__name__, T(5)]))
    raise ValueError


class Awaitable:
    def __await__(self):
        yield
        return T(2)


class AsyncContext:
    async def __aenter__(self): return T(3)
    async def __aexit__(self, *exc): put(T(4))


class AsyncIterator:
    def __init__(self): self.i = 0
    def __aiter__(self): return self
    async def __anext__(self):
        self.i += 1
        if self.i > 2: raise StopAsyncIteration
        return T(self.i)


async def agen():
    try:
        yield T(5)
        yield T(6)
    finally:
        put(["agen closed", T(7)])


async def by_hand():
    async with AsyncContext() as entered: put(entered)
    async for i in AsyncIterator(): put(i)
    return await Awaitable(), [T(i) async for i in AsyncIterator()]


coroutine = by_hand()
try:
    while True: coroutine.send(None)
except StopIteration as stop:
    show(stop.value)


async def ticking(name):
    for i in range(2):
        await asyncio.sleep(0.001 * (i + 1))
        put([name, T(i)])
    return name


async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ticking(name)) for name in "ab"]
    async for value in agen():
        put(value)
        break
    try:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(9)
    except TimeoutError:
        put(["timed out", T(1)])
    return [task.result() for task in tasks] + await asyncio.gather(ticking("c"), ticking("d"))


show(asyncio.run(main()))
variable = contextvars.ContextVar("variable", default=0)
context = contextvars.copy_context()
show(context.run(lambda: (variable.set(T(5)), variable.get())[1]), variable.get())

# ---- exceptions ----
class Odd(Exception):
    def __str__(self): return f"odd {T(4)}"


def nested():
    try:
        try:
            raise Odd
        finally:
            put(["finally", T(1)])
    except Odd as error:
        error.add_note(str(T(2)))
        raise LookupError(T(3)) from error
    finally:
        return T(5)


try:
    raise ExceptionGroup("group", [ValueError(T(1)), TypeError(T(2))])
except* ValueError as part:
    put(["value", T(3), repr(part.exceptions)])
except* TypeError as part:
    put(["type", T(4)])
show(nested(), str(Odd()), ExceptionGroup("g", [Odd(), KeyError()]).split(lambda e: T(1) and isinstance(e, KeyError))[0].exceptions)
try:
    demo.boom()
except stasis.Failed as error:
    put([error.code, T(6)])
show(stasis.parallel(demo.get.later(i=1), demo.boom.later(), demo.get.later(i=3), errors="return"))

# ---- the end of objects ----
class Mortal:
    def __del__(self): put(["del", T(6)])


mortal = Mortal()
del mortal
cycle = Mortal()
cycle.self = cycle
del cycle
gc.callbacks.append(lambda phase, info: put([phase, T(2)]))
gc.collect()
gc.callbacks.clear()
referred = Data(1)
reference = weakref.ref(referred, lambda _: put(["weakref", T(7)]))
weakref.finalize(referred, lambda: put(["finalize", T(8)]))
del referred

# ---- hooks of the interpreter ----
sys.settrace(lambda frame, event, arg: put(["trace", T(1)]) if frame.f_code.co_name == "traced" else None)
def traced(): return 1
traced()
sys.settrace(None)
sys.setprofile(lambda frame, event, arg: put(["profile", event, T(2)]) if frame.f_code.co_name == "traced" else None)
traced()
sys.setprofile(None)
sys.monitoring.use_tool_id(4, "chain")
sys.monitoring.register_callback(4, sys.monitoring.events.PY_START, lambda code, at: put(["monitor", T(3)]))
sys.monitoring.set_local_events(4, traced.__code__, sys.monitoring.events.PY_START)
traced()
sys.monitoring.free_tool_id(4)
warnings.showwarning = lambda message, *rest: put(["warning", str(message), T(4)])
warnings.warn("careful")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "made_here" else None
    def create_module(self, spec): put(["create", T(1)])
    def exec_module(self, module): module.value = T(2)


sys.meta_path.insert(0, Finder())
import made_here
show(made_here.value, eval("T(3) + 1"), exec("put(T(5))"), [T(x) for x in (1, 2)], {T(i): T(i + 1) for i in range(2)})
show(eval(compile(ast.fix_missing_locations(ast.parse("T(4) if T(1) else T(2)", mode="eval")), "<made>", "eval")))

# ---- C code of the library that calls back ----
writer_buffer = io.StringIO()
csv.writer(writer_buffer).writerow([K(1), 2])
show(writer_buffer.getvalue(), list(csv.reader(f"{T(i)},x" for i in range(2))))


class Raw(io.RawIOBase):
    left = 2
    def readable(self): return True
    def writable(self): return True
    def readinto(self, room):
        if not self.left: return 0
        self.left -= 1
        data = f"{T(self.left)}\n".encode()
        room[: len(data)] = data
        return len(data)
    def write(self, data): put(["raw", len(data), T(1)]); return len(data)


show(list(io.TextIOWrapper(io.BufferedReader(Raw()))))
with io.BufferedWriter(Raw()) as file: file.write(b"x" * 10)


class Writer:
    def write(self, text): put(["write", T(len(text))])
    def flush(self): put(["flush", T(2)])


print("hey", file=Writer(), flush=True)
show(re.sub("(.)", lambda m: str(T(ord(m[1]) - 96)), "abc"), json.loads('{"a":[1,2.5]}', object_hook=lambda o: T(7), parse_int=lambda s: T(int(s)), parse_float=lambda s: T(3)))
show(json.dumps({"k": K(1)}, default=lambda o: T(1)), string.Template("$a").substitute(collections.defaultdict(lambda: T(1))), string.Formatter().vformat("{0:>5}", (T(1),), {}))
parser = xml.parsers.expat.ParserCreate()
parser.StartElementHandler = lambda name, attributes: put(["element", name, T(1)])
parser.CharacterDataHandler = lambda data: put(["data", data, T(2)])
parser.Parse("<a><b>text</b></a>", True)
codecs.register_error("asking", lambda error: (str(T(1)), error.end))
show("é".encode("ascii", "asking"), b"\xff".decode("utf-8", "asking"))


class Pickler(pickle.Pickler):
    def persistent_id(self, value): return T(1) if type(value) is complex else None
    def reducer_override(self, value): return (int, (T(2),)) if isinstance(value, Ordered) else NotImplemented


class Unpickler(pickle.Unpickler):
    def persistent_load(self, ident): return ["loaded", ident, T(3)]


class Stateful:
    def __getstate__(self): return {"s": T(4)}
    def __setstate__(self, state): self.s = state["s"] + T(5)


pickled = io.BytesIO()
Pickler(pickled).dump([1j, Ordered(1), Stateful()])
loaded = Unpickler(io.BytesIO(pickled.getvalue())).load()
show(loaded[0], loaded[1], loaded[2].s, pickle.loads(pickle.dumps(K(2))), copy.copy(Stateful()).s)
copyreg.pickle(Descriptor, lambda value: (T, (3,)))
show(copy.copy(Descriptor()), decimal.Decimal(T(3)) / 7, fractions.Fraction(T(1), 7), statistics.fmean(T(i) for i in range(3)))


class User(collections.UserDict):
    def __missing__(self, key): return T(key)


class Missing(dict):
    def __missing__(self, key): return T(key)


show(User()[3], Missing()[4], "%(k)s" % Missing({"k": K(1)}), collections.defaultdict(lambda: T(4))[1], collections.Counter(T(i) for i in range(2)), collections.ChainMap({}, Missing())[5])


class Handler(logging.Handler):
    def emit(self, record): put(["log", record.getMessage(), T(1)])


logger = logging.getLogger("chain")
logger.addHandler(Handler())
logger.warning("%s", K(1))

# ---- deep stacks ----
def deep(n): return T(5) if n == 0 else deep(n - 1) + 1
def deep_in_c(n): return T(5) if n == 0 else max([n], key=lambda x: deep_in_c(n - 1)) + 1


class Attribute:
    def __getattr__(self, name): return T(4) if len(name) > 20 else getattr(self, name + "x")


show(deep(400), deep_in_c(60), Attribute().q)

# ---- randomness and time go on over every freeze ----
random.seed(7)
show(random.random(), T(1), random.random(), random.getstate()[1][0])
random.seed()
own = random.Random()
show(random.random() != T(1), uuid.uuid4().version, own.random() < 1, random.randbytes(2) != b"")
put([str(uuid.uuid4()), random.random(), own.getrandbits(64), T(3)])
put([str(uuid.uuid4()), random.random(), own.getrandbits(64), time.time(), time.monotonic() == time.time(), T(3)])
put(sorted({f"s{i}" for i in range(5)}, key=lambda s: hash(s)))
atexit.register(lambda: out.append(["at exit", T(1)]))

result = out

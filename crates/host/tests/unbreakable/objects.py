# Kinds of live objects: for each a function that makes one, and a function that uses it and says what came of it. Using an object changes it
# (a generator moves on, a file is read further), so after going back every use must say the same again.
#
# This part has the registry, and what lives in memory alone. `objects_files.py` and `objects_system.py` are run after it, in the same session.
import array, asyncio, bz2, codecs, collections, configparser, contextlib, contextvars, csv, ctypes, dataclasses
import datetime, decimal, enum, fractions, functools, gc, hashlib, heapq, io, itertools, json, lzma, operator, os
import pickle, queue, random, re, select, struct, threading, time, traceback, types, uuid, weakref
import xml.etree.ElementTree, zlib

KINDS = {}


def kind(make):
    """Registers a function that makes an object and returns the function that uses it."""
    KINDS[make.__name__] = make
    return make


def from_iterator(name, make):
    def made():
        iterator = iter(make())
        next(iterator)
        return lambda: next(iterator)

    made.__name__ = name
    KINDS[name] = made


def count_up():
    total = 0
    while True:
        got = yield total
        total += 1 if got is None else got


from_iterator("a list iterator", lambda: [1, 2, 3, 4])
from_iterator("a dict iterator", lambda: dict.fromkeys("abcd"))
from_iterator("a generator", count_up)
from_iterator("itertools.count", lambda: itertools.count(5))
from_iterator("itertools.cycle", lambda: itertools.cycle("abc"))
from_iterator("itertools.groupby", lambda: (key for key, _ in itertools.groupby("aabbc", str.upper)))
from_iterator("itertools.tee", lambda: itertools.tee(count_up())[1])
from_iterator("itertools.permutations", lambda: itertools.permutations(range(4)))
from_iterator("zip", lambda: zip("abc", count_up()))
from_iterator("map", lambda: map(str, count_up()))
from_iterator("filter", lambda: filter(None, [1, 0, 2, 0, 3]))
from_iterator("enumerate", lambda: enumerate("abcd"))
from_iterator("re.finditer", lambda: (match.group() for match in re.finditer(r"\w+", "one two three four")))
from_iterator("csv.reader", lambda: csv.reader(["a,b", "1,2", "3,4"]))
from_iterator("pickle.Unpickler", lambda: iter(pickle.Unpickler(io.BytesIO(b"".join(map(pickle.dumps, range(5))))).load, None))
from_iterator("xml.iterparse", lambda: (event for event, _ in xml.etree.ElementTree.iterparse(io.BytesIO(b"<a><b/><c/><d/></a>"))))


def container(name, make, use):
    def made():
        value = make()
        return lambda: use(value)

    made.__name__ = name
    KINDS[name] = made


container("a list", lambda: [1], lambda v: (v.append(2), len(v)))
container("a dict", lambda: {"a": 1}, lambda v: (v.setdefault("b", 2), v.pop("a"), sorted(v)))
container("a set", lambda: {1}, lambda v: (v.add(2), len(v)))
container("a bytearray", lambda: bytearray(b"ab"), lambda v: (v.extend(b"c"), bytes(v)))
container("array.array", lambda: array.array("d", [1.5]), lambda v: (v.append(2), v.tolist()))
container("a memoryview", lambda: memoryview(bytearray(4)), lambda v: (operator.setitem(v, 0, v[0] + 1), v.tolist()))
container("deque", lambda: collections.deque([1, 2], 3), lambda v: (v.append(3), v.rotate(1), list(v)))
container("Counter", lambda: collections.Counter("aab"), lambda v: (v.update("b"), v.most_common()))
container("heapq", lambda: [1, 5, 3], lambda v: (heapq.heappop(v), v))
container("io.StringIO", lambda: io.StringIO("one\ntwo\nthree"), lambda v: v.readline())
container("io.BytesIO", lambda: io.BytesIO(b"one two"), lambda v: v.read(3))
container("random.Random", lambda: random.Random(7), lambda v: v.random())
container("queue.Queue", lambda: (lambda q: (q.put(1), q.put(2), q)[2])(queue.Queue()), lambda v: (v.get(), v.qsize()))
container("hashlib", lambda: hashlib.sha256(b"a"), lambda v: (v.update(b"b"), v.hexdigest()))
container("zlib.compressobj", zlib.compressobj, lambda v: (v.compress(b"x" * 99) + v.flush(zlib.Z_SYNC_FLUSH)).hex())
container("bz2.BZ2Compressor", bz2.BZ2Compressor, lambda v: (v.compress(b"x") + v.flush()).hex())
container("lzma.LZMACompressor", lzma.LZMACompressor, lambda v: (v.compress(b"x") + v.flush()).hex())
container("codecs.getincrementaldecoder", lambda: (lambda d: (d.decode(b"\xe2\x82"), d)[1])(codecs.getincrementaldecoder("utf8")()), lambda v: v.decode(b"\xac"))
container("decimal.Context", lambda: decimal.Context(prec=5), lambda v: (setattr(v, "prec", v.prec + 1), v.divide(1, 3))[1])
container("configparser", configparser.ConfigParser, lambda v: (v.read_string("[a]\nb=1"), v["a"]["b"]))
container("a ctypes buffer", lambda: ctypes.create_string_buffer(b"abc"), lambda v: (ctypes.memset(v, 120, 1), v.value)[1])
container("weakref.WeakValueDictionary", lambda: (lambda s: (s, weakref.WeakValueDictionary(a=s)))({1}.__class__), lambda v: v[1]["a"] is v[0])
container("a lock that is held", lambda: (lambda k: (k.acquire(), k)[1])(threading.Lock()), lambda v: (v.locked(), v.release(), v.locked()))
container("threading.RLock", lambda: (lambda k: (k.acquire(), k)[1])(threading.RLock()), lambda v: (v.release(), v.acquire(False)))
container("threading.Semaphore", lambda: threading.Semaphore(2), lambda v: (v.acquire(False), v._value))
container("threading.Event", threading.Event, lambda v: (v.is_set(), v.set()))
container("select.poll", lambda: (lambda p: (p.register(0, 0), p)[1])(select.poll()), lambda v: (v.unregister(0), v.register(1, 0)))
container("uuid", lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "a"), str)
container("a fraction", lambda: fractions.Fraction(1, 3), lambda v: v + 1)
container("a time zone", lambda: datetime.timezone(datetime.timedelta(hours=2)), lambda v: v.utcoffset(None))
container("struct.Struct", lambda: struct.Struct("<iq"), lambda v: v.pack(1, 2))
container("re.Scanner", lambda: re.compile("b").scanner("abab"), lambda v: v.search().start())


@kind
def a_closure():
    count = 0

    def use():
        nonlocal count
        count += 1
        return count

    return use


@kind
def a_cached_function():
    cached = functools.lru_cache(lambda n: n)
    cached(1)
    return lambda: (cached(1), cached(2), cached.cache_info())


@kind
def a_coroutine():
    @types.coroutine
    def pause(value):
        return (yield value)

    async def work():
        return [await pause(n) for n in range(3)]

    coroutine = work()
    coroutine.send(None)
    return lambda: coroutine.send("x")


@kind
def an_async_generator():
    async def numbers():
        for n in range(5):
            yield n

    generator = numbers()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(generator.__anext__())
    return lambda: loop.run_until_complete(generator.__anext__())


@kind
def a_pending_task():
    loop = asyncio.new_event_loop()
    future = loop.create_future()

    async def wait():
        return await future

    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    return lambda: (future.set_result(5), loop.run_until_complete(task))


@kind
def a_context_variable():
    variable = contextvars.ContextVar("v", default=1)
    context = contextvars.copy_context()
    return lambda: context.run(lambda: (variable.get(), variable.set(variable.get() + 1)))[0]


@kind
def an_exit_stack():
    stack, left = contextlib.ExitStack(), []
    stack.callback(left.append, 1)
    return lambda: (stack.close(), left)


@kind
def a_finalizer():
    class Thing:
        pass

    things, ended = [Thing()], []
    weakref.finalize(things[0], ended.append, 1)
    return lambda: (things.clear(), gc.collect() >= 0, ended)


@kind
def a_dataclass_and_an_enum():
    @dataclasses.dataclass
    class Point:
        x: int

    colour = enum.Enum("Colour", "RED BLUE")
    point = Point(1)
    return lambda: (setattr(point, "x", point.x + 1), point == Point(2), colour(2).name)


@kind
def an_exception_with_its_frames():
    try:
        1 / 0
    except ZeroDivisionError as error:
        kept = error
    return lambda: (traceback.format_exception(kept)[-1], kept.__traceback__.tb_frame.f_code.co_name)


@kind
def a_module_of_the_workspace():
    with open("a_module.py", "w") as file:
        file.write("count = 0\ndef up():\n    global count\n    count += 1\n    return count\n")
    import a_module

    return lambda: (a_module.up(), os.remove("a_module.py"))


@kind
def a_callback_of_c():
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    return lambda: (ctypes.CDLL(None).qsort(numbers, 3, 4, compare), numbers[:])[1]


@kind
def state_of_a_c_library():
    libc = ctypes.CDLL(None)
    libc.srand(7)
    return lambda: libc.rand()


@kind
def seeded_random():
    random.seed(11)
    return lambda: random.random()


USES = {}


def make_all():
    for name, make in KINDS.items():
        USES[name] = make()


def use_all():
    """What using each object says, in one text; an object that fails says how."""
    said = {}
    for name, use in USES.items():
        try:
            said[name] = repr(use())
        except BaseException as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said

# Kinds of live objects: for each a function that makes one, and a function that uses it and says what came of it. Using an object changes it
# (a generator moves on, a file is read further), so after going back every use must say the same again.
import array, asyncio, bz2, codecs, collections, configparser, contextlib, contextvars, csv, ctypes, dataclasses, datetime, decimal, enum, fcntl
import fractions, functools, gc, gzip, hashlib, heapq, io, itertools, json, logging, lzma, mmap, multiprocessing.shared_memory, operator, os, pickle, queue, random, re
import resource, sched, select, shelve, signal, sqlite3, struct, sys, tarfile, tempfile, threading, time, traceback
import types, uuid, warnings, weakref, xml.etree.ElementTree, zipfile, zlib
from concurrent.futures import ThreadPoolExecutor

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


@kind
def a_file_that_is_read():
    with open("read", "w") as file:
        file.write("one\ntwo\nthree\nfour\n")
    file = open("read")
    file.readline()
    return lambda: (file.readline(), file.tell())


@kind
def a_file_that_is_written():
    file = open("written", "w+")
    file.write("kept")  # still in Python's buffer
    return lambda: (file.write(" lost"), file.flush(), file.seek(0), file.read())


@kind
def a_file_that_grows():
    file = open("grows", "a")
    print("one", file=file, flush=True)
    return lambda: (print("two", file=file, flush=True), open("grows").read())


@kind
def a_binary_file_that_is_replaced():
    file = open("replaced", "wb+", buffering=0)
    file.write(b"abc")
    return lambda: (os.replace("replaced", "elsewhere"), file.seek(1), file.read(), os.listdir().count("elsewhere"))[1:]


@kind
def a_gzip_file():
    with gzip.open("z.gz", "wt") as file:
        file.write("one\ntwo\nthree\n")
    file = gzip.open("z.gz", "rt")
    file.readline()
    return lambda: file.readline()


@kind
def a_zip_archive():
    with zipfile.ZipFile("z.zip", "w") as archive:
        archive.writestr("a", "one\ntwo\n")
    member = zipfile.ZipFile("z.zip").open("a")
    member.readline()
    return lambda: member.readline()


@kind
def a_tar_archive():
    with tarfile.open("t.tar", "w") as archive:
        for name in "abc":
            archive.addfile(tarfile.TarInfo(name))
    archive = tarfile.open("t.tar")
    archive.next()
    return lambda: archive.next().name


@kind
def a_shelf():
    shelf = shelve.open("shelf")
    shelf["a"] = 1
    shelf.sync()
    return lambda: (operator.setitem(shelf, "b", 2), shelf.sync(), sorted(shelf))[2]


@kind
def a_database_in_memory():
    base = sqlite3.connect(":memory:")
    base.execute("create table t (x)")
    base.executemany("insert into t values (?)", [(n,) for n in range(5)])
    cursor = base.execute("select x from t")
    cursor.fetchone()
    return lambda: (cursor.fetchone(), base.execute("insert into t values (9)").rowcount, base.total_changes)


@kind
def a_database_file_in_a_transaction():
    base = sqlite3.connect("file.db")
    base.execute("create table t (x)")
    base.commit()
    base.execute("insert into t values (1)")
    return lambda: (base.execute("select count(*) from t").fetchone(), base.commit(), sqlite3.connect("file.db").execute("select count(*) from t").fetchone())


@kind
def a_database_with_a_write_ahead_log():
    base = sqlite3.connect("wal.db")
    base.execute("pragma journal_mode=wal")
    base.execute("create table t (x)")
    base.commit()
    return lambda: (base.execute("insert into t values (1)"), base.commit(), base.execute("select count(*) from t").fetchone())[2]


@kind
def a_private_map():
    area = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area[:3] = b"abc"
    return lambda: (area[:3], area.__setitem__(slice(0, 3), b"xyz"))[0]


@kind
def a_shared_map_of_a_file():
    with open("mapped", "wb") as file:
        file.write(b"abc" + bytes(4093))
    file = open("mapped", "r+b")
    area = mmap.mmap(file.fileno(), 4096)
    return lambda: (area[:3], area.__setitem__(slice(0, 3), b"xyz"), area.flush())[0]


@kind
def an_open_directory():
    os.makedirs("dir/sub", exist_ok=True)
    directory = os.open("dir", os.O_RDONLY)
    return lambda: (os.listdir(directory), os.rmdir("sub", dir_fd=directory))[0]


@kind
def a_logger_with_a_file():
    logger = logging.Logger("l")
    logger.addHandler(logging.FileHandler("log"))
    logger.error("one")
    return lambda: (logger.error("two"), open("log").read())[1]


@kind
def a_lock_on_a_file():
    file = open("flocked", "w")
    fcntl.flock(file, fcntl.LOCK_EX)

    def is_free():
        try:
            fcntl.flock(open("flocked"), fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            return False

    return lambda: (is_free(), fcntl.flock(file, fcntl.LOCK_UN), is_free())


@kind
def hard_links():
    with open("linked", "w") as file:
        file.write("one")
    os.link("linked", "second name")
    return lambda: (os.stat("linked").st_nlink, os.path.samefile("linked", "second name"), os.remove("second name"))[:2]


@kind
def a_symbolic_link():
    os.symlink("read", "link")
    return lambda: (os.readlink("link"), os.remove("link"))[0]


@kind
def permissions_and_times():
    open("moded", "w").close()
    os.chmod("moded", 0o640)
    os.utime("moded", (1_000, 2_000))
    return lambda: (oct(os.stat("moded").st_mode), int(os.stat("moded").st_mtime), os.chmod("moded", 0o600), os.utime("moded", (5, 5)))[:2]


@kind
def an_epoll():
    watch, counter = select.epoll(), os.eventfd(0)
    watch.register(counter, select.EPOLLIN)
    return lambda: (watch.poll(0), watch.unregister(counter))[0]


@kind
def a_thread_that_waits():
    asked, told = queue.Queue(), queue.Queue()

    def work():
        total = 0
        while True:
            total += asked.get()
            told.put(total)

    threading.Thread(target=work, daemon=True).start()
    return lambda: (asked.put(3), told.get(timeout=20))[1]


@kind
def an_executor():
    pool = ThreadPoolExecutor(3)
    pool.submit(abs, 1).result()
    return lambda: (sum(pool.map(abs, range(-5, 0))), pool.shutdown())[0]


@kind
def a_future_that_is_not_done():
    pool, gate = ThreadPoolExecutor(1), threading.Event()
    future = pool.submit(gate.wait)
    return lambda: (future.done(), gate.set(), future.result(20))


@kind
def a_condition_with_a_waiter():
    condition, woken = threading.Condition(), queue.Queue()

    def wait():
        with condition:
            condition.wait()
        woken.put(1)

    threading.Thread(target=wait, daemon=True).start()
    while not condition._waiters:
        time.sleep(0.001)

    def use():
        with condition:
            condition.notify_all()
        return woken.get(timeout=20)

    return use


@kind
def a_value_of_a_thread():
    local = threading.local()
    local.count = 1
    return lambda: (setattr(local, "count", local.count + 1), local.count)[1]


@kind
def a_scheduler():
    done, scheduler = [], sched.scheduler()
    scheduler.enter(0, 1, done.append, (1,))
    return lambda: (scheduler.run(), done)[1]


@kind
def a_signal_handler():
    got = []
    signal.signal(signal.SIGUSR2, lambda *_: got.append(1))
    return lambda: (os.kill(os.getpid(), signal.SIGUSR2), time.sleep(0.01), got, signal.signal(signal.SIGUSR2, signal.SIG_IGN) is not None)[2]


@kind
def settings_of_the_process():
    os.environ["KIND"] = "one"
    os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(1234)

    def use():
        seen = os.environ.pop("KIND"), oct(os.umask(0)), sys.getrecursionlimit(), resource.getrlimit(resource.RLIMIT_CORE)
        sys.setrecursionlimit(2000)
        return seen

    return use


@kind
def filters_of_warnings():
    warnings.simplefilter("error", BytesWarning)
    return lambda: (len(warnings.filters) > 0, warnings.filters[0][0], warnings.resetwarnings())[:2]


@kind
def shared_memory_without_a_name():
    area = mmap.mmap(-1, 3 * 4096)
    area[:3] = b"abc"

    def use():
        seen = area[0], area[8192]
        area[0], area[8192] = 1, 1
        return seen

    return use


@kind
def memory_of_a_memfd():
    try:
        number = os.memfd_create("kind")
    except OSError:  # where there is no cgroup
        with tempfile.TemporaryFile(dir="/dev/shm") as file:
            number = os.dup(file.fileno())
    os.ftruncate(number, 8192)
    area = mmap.mmap(number, 8192)
    area[4096] = 5
    return lambda: (area[4096], os.fstat(number).st_size, operator.setitem(area, 4096, 6), os.ftruncate(number, 0))[:2]


@kind
def shared_memory_with_a_name():
    memory = multiprocessing.shared_memory.SharedMemory("kind", create=True, size=5000)
    memory.buf[4999] = 5
    return lambda: (memory.buf[4999], os.stat("/dev/shm/kind").st_size, operator.setitem(memory.buf, 4999, 6), memory.unlink())[:2]


@kind
def a_file_in_dev_shm():
    with open("/dev/shm/text", "w") as file:
        file.write("one")
    return lambda: (open("/dev/shm/text").read(), open("/dev/shm/text", "a").write("two"), open("/dev/shm/new", "x").close())


@kind
def a_value_and_an_array_of_processes():
    value, numbers = multiprocessing.Value("i", 1), multiprocessing.Array("d", [1, 2])

    def use():
        value.value += 1
        numbers[1] *= 2
        return value.value, numbers[:]

    return use


@kind
def locks_of_processes():
    lock, semaphore, event = multiprocessing.Lock(), multiprocessing.Semaphore(2), multiprocessing.Event()
    lock.acquire()
    return lambda: (lock.acquire(False), lock.release(), semaphore.acquire(), semaphore.get_value(), event.is_set(), event.set())


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

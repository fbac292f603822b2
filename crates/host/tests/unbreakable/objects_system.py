# Kinds of live objects of the kernel: events, threads, signals, shared memory and locks of processes. `objects.py` has the registry.
import mmap, multiprocessing.shared_memory, operator, os, queue, resource, sched, select, signal, sys, tempfile
import threading, time, warnings
from concurrent.futures import ThreadPoolExecutor


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

# Kinds of live objects with files: open files, archives, databases, maps, locks and links. `objects.py` has the registry.
import fcntl, gzip, logging, mmap, operator, os, select, shelve, sqlite3, tarfile, zipfile


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

def _dump():
    import json, os, stat, sys

    names = [name for name in ("a", "b", "c", "given") if name in globals()]
    values = [globals()[name] for name in names]

    def show(value):
        if type(value).__name__ == "generator":
            return ["generator", value.gi_frame.f_locals.get("n") if value.gi_frame else "over"]
        if callable(value):
            return ["function", value()]
        return [type(value).__name__, repr(value)]

    def entry(path):
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return ["link", os.readlink(path)]
        if stat.S_ISDIR(mode):
            return ["directory"]
        with open(path) as file:
            return ["file", oct(mode & 0o777), file.read()]

    first = [next(n for n, other in enumerate(values) if other is value) for value in values]
    files = sorted(os.path.join(at, name) for at, inner, names in os.walk(".") for name in inner + names)
    random = sys.modules.get("random")
    state = {
        "variables": {name: show(value) for name, value in zip(names, values)},
        "same objects": first,
        "files": {path: entry(path) for path in files},
        "random": random.getrandbits(64),
        "reader": reader.readline() if "reader" in globals() else None,
        "log": log.tell() if "log" in globals() else None,
    }
    print(json.dumps(state, indent=1))


_dump()

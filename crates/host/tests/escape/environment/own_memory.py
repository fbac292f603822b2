# canary: variable
# Everything that is in our own memory: what was there before the fork is there still.
import re

pattern = re.compile(rb"CELLBLOCK_CANAR" + rb"Y=([0-9a-f]{32})")
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps.read().splitlines():
        span, rights, *rest = line.split()
        start, end = (int(number, 16) for number in span.split("-"))
        if "r" not in rights or "[v" in line:
            continue
        memory.seek(start)
        for found in pattern.findall(memory.read(min(end - start, 64 << 20))):
            print("CANARY:" + found.decode())

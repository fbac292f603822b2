# canary: outside
# A C library writes where it is told to.
import sqlite3

base = sqlite3.connect(canary["outside"])
base.execute(f"create table '{canary['mark']}' (x)")
base.commit()

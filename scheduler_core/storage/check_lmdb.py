"""Walks an LMDB folder in a process of its own, which may die of it: status 0 = sound, 1 = damaged, 2 = cannot tell.

Run as a script with the folder. Values are not read; every one has a digest of its own.
"""

from __future__ import annotations

import os
import sys

SOUND, DAMAGED, UNKNOWN = 0, 1, 2


def check(folder: str) -> int:
    """The status of the folder."""
    import lmdb

    not_about_content = (lmdb.LockError, lmdb.ReadersFullError, lmdb.TlsFullError, lmdb.MemoryError)
    try:
        with lmdb.open(folder, readonly=True, max_dbs=4) as env:
            pages = env.info()["last_pgno"] + 1
            if os.path.getsize(os.path.join(folder, "data.mdb")) < pages * env.stat()["psize"]:
                return DAMAGED
            return _walk(env)
    except not_about_content:
        return UNKNOWN
    except lmdb.Error as problem:
        return UNKNOWN if _is_of_the_system(problem) else DAMAGED


def _walk(env: object) -> int:
    """Whether the books agree: each entry has its value and its place in the order, and nothing else has."""
    databases = {name: env.open_db(name, create=False) for name in (b"values", b"used", b"order")}  # type: ignore[attr-defined]
    with env.begin() as txn:  # type: ignore[attr-defined]
        names = set()
        for name, used in txn.cursor(db=databases[b"used"]):
            if txn.get(name, db=databases[b"values"]) is None or txn.get(used[:8], db=databases[b"order"]) != name:
                return DAMAGED
            names.add(name)
        counted = [sum(1 for _ in txn.cursor(db=databases[b"order"]))]
        counted.append(sum(1 for _ in txn.cursor(db=databases[b"values"]).iternext(values=False)))
        return SOUND if counted == [len(names), len(names)] else DAMAGED


def _is_of_the_system(problem: Exception) -> bool:
    return any(word in str(problem) for word in ("Permission denied", "No such file", "Not a directory"))


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))

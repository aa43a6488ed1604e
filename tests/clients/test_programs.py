#!/usr/bin/python3
"""Programs that ask much of a file system: SQLite, git, a compiler."""

import os
import sqlite3
import subprocess

import mounted
from mounted import check, equal, python, run, shell

WRITER = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
base.execute('pragma busy_timeout = 60000')
for number in range(150):
    base.execute('begin immediate')
    base.execute('insert into t values (?, ?)', (sys.argv[2], number))
    base.execute('update total set n = n + 1')
    base.execute('commit')
"""


def sqlite_in(m, mode):
    path = m.root / f"{mode}.db"
    base = sqlite3.connect(path)
    equal(base.execute(f"pragma journal_mode = {mode}").fetchone()[0], mode, "journal mode")
    base.executescript("create table t (who text, n int); create table total (n int); insert into total values (0);")
    base.close()
    children = [subprocess.Popen([mounted.PYTHON, "-c", WRITER, path, name]) for name in ("one", "two")]
    equal([child.wait(timeout=300) for child in children], [0, 0], "two writers at once")

    def verify(moment):
        found = run("sqlite3", path, "pragma integrity_check; select n from total; select count(*) from t;").stdout
        equal(found.split(), ["ok", "300", "300"], f"integrity and counts {moment}")

    verify("before a new mount")
    base = sqlite3.connect(path)
    base.execute("begin")
    base.execute("delete from t")
    base.rollback()
    base.execute("vacuum")
    base.close()
    m.restart()
    verify("after a rollback, a vacuum and a new mount")
    dump = shell(f"sqlite3 {path} .dump | sqlite3 {m.root}/{mode}-copy.db && sqlite3 {m.root}/{mode}-copy.db 'select n from total'")
    equal(dump.strip(), "300", ".dump into another database")


def scenario_sqlite_rollback(m):
    """SQLite with a rollback journal, two processes."""
    sqlite_in(m, "delete")


def scenario_sqlite_wal(m):
    """SQLite with a write-ahead log (shared memory maps), two processes."""
    sqlite_in(m, "wal")


def scenario_git(m):
    """git: init, commit, branch, merge, clone, fsck, gc, across mounts."""
    home = {"HOME": str(m.folder), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments, cwd=None):
        return run("git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments, cwd=cwd, env=home).stdout

    work = m.root / "work"
    git("init", "-q", "-b", "main", work)
    for number in range(200):
        folder = work / f"folder{number % 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"file{number}").write_text(f"content {number}\n" * number)
    (work / "binary").write_bytes(os.urandom(2_000_000))
    git("add", ".", cwd=work)
    git("commit", "-q", "-m", "first", cwd=work)
    git("checkout", "-q", "-b", "side", cwd=work)
    for number in range(0, 200, 3):
        (work / f"folder{number % 10}" / f"file{number}").write_text("changed\n")
    git("commit", "-q", "-a", "-m", "second", cwd=work)
    git("checkout", "-q", "main", cwd=work)
    git("merge", "-q", "--no-ff", "-m", "merged", "side", cwd=work)
    git("clone", "-q", "--no-hardlinks", work, m.root / "clone")
    git("clone", "-q", work, m.plain / "clone")
    shell(f"diff -r --exclude=.git {m.root}/clone {m.plain}/clone")
    git("gc", "-q", "--aggressive", "--prune=now", cwd=m.root / "clone")
    m.restart()
    for folder in (work, m.root / "clone"):
        git("fsck", "--full", "--strict", cwd=folder)
        equal(git("status", "--porcelain", cwd=folder), "", f"git status of {folder.name} is clean after a new mount")
    equal(git("rev-list", "--count", "HEAD", cwd=m.root / "clone").strip(), "3", "commits in the clone")


def scenario_compiler(m):
    """A compiler inside the mount: build, run, build again over the program, a static library, ETXTBSY."""
    source = m.root / "main.c"
    source.write_text('#include <stdio.h>\nint f(int); int main(void) { printf("%d\\n", f(1)); return 0; }\n')
    for turn in range(3):
        (m.root / "f.c").write_text(f"int f(int x) {{ return x + {turn}; }}\n")
        shell("gcc -c -g main.c f.c && rm -f libf.a && ar rcs libf.a f.o && gcc -g -o program main.o libf.a", cwd=m.root)
        equal(run(m.root / "program").stdout, f"{1 + turn}\n", f"build {turn} runs at once")
    (m.root / "script").write_text("#!/bin/sh\nsleep 5\n")
    os.chmod(m.root / "script", 0o755)
    shell("cp /bin/sleep sleeper", cwd=m.root)
    with subprocess.Popen([m.root / "sleeper", "30"]) as child:
        try:
            open(m.root / "sleeper", "r+b").close()
            busy = False
        except OSError:
            busy = True
        child.kill()
    check(busy, "a running program cannot be opened for writing")
    m.restart()
    equal(run(m.root / "program").stdout, "3\n", "the program runs after a new mount")


def scenario_python_modules(m):
    """Python imports modules from the mount and writes its byte code there."""
    (m.root / "package").mkdir()
    (m.root / "package" / "__init__.py").write_text("value = 1\n")
    code = "import sys; sys.dont_write_bytecode = False; sys.path.insert(0, sys.argv[1]); import package; print(package.value)"
    env = {"PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(2):
        equal(python(code, m.root, env=env).strip(), "1", "imported")
    check(list((m.root / "package" / "__pycache__").iterdir()), "byte code was written")
    shell(f"cd {m.root} && zip=$(python3 -c 'import shutil; print(shutil.make_archive(\"p\", \"zip\", \"package\"))') && test -s p.zip"
          .replace("python3", mounted.PYTHON))


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))

"""What the kernel is asked to put around the candidate, and around the judge.

Nothing here is needed for the verdict to be right about an honest candidate;
each wall takes one way of cheating from a dishonest one. A kernel may refuse
any of them: every function reports what held, and the judge records it.
"""

import ctypes
import os
import resource
import struct

NOBODY = 65534
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SIGKILL = 9
# Numbers of the asm-generic table: the same on every architecture since 5.13.
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
FS_EXECUTE, FS_READ_FILE, FS_READ_DIR = 1 << 0, 1 << 2, 1 << 3
# File system rights known to each ABI: all of them are handled, so that what
# is not granted is refused.
FS_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
FS_RIGHTS_5 = (1 << 16) - 1
NET_RIGHTS = 3  # TCP bind and connect, ABI 4
SCOPES = 3  # abstract unix sockets and signals to processes outside, ABI 6

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option, value):
    zero = ctypes.c_ulong(0)
    return _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) == 0


def guard_judge(deadline):
    """Hide the judge's memory, adopt orphans, and end after deadline seconds."""
    _libc.alarm(deadline)  # SIGALRM's default action ends the judge without a reward
    return {
        "judge_not_dumpable": _prctl(PR_SET_DUMPABLE, 0),
        "judge_adopts_orphans": _prctl(PR_SET_CHILD_SUBREAPER, 1),
    }


def enclose(readable, needed, cpu_seconds):
    """Close the calling process in. It keeps its open files and may read below
    the paths of readable; it may write, connect, signal and start nothing.
    Without the paths of needed it could not work at all."""
    held = {}
    held["uid"] = _drop_user(needed)
    held["no_capabilities"] = _drop_capabilities()
    held["no_new_privs"] = _prctl(PR_SET_NO_NEW_PRIVS, 1)
    held["landlock_abi"] = _landlock(readable) if held["no_new_privs"] else 0
    held["limits"] = _limit(cpu_seconds)
    # After the change of user, which clears it.
    held["dies_with_judge"] = _prctl(PR_SET_PDEATHSIG, SIGKILL)
    return held


def _drop_user(needed):
    """Become nobody where that user exists and can reach the paths of needed;
    return the effective uid."""
    if os.geteuid() == 0 and all(map(_open_to_all, needed)):
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError:
            pass  # a user namespace that maps one user only
    return os.geteuid()


def _open_to_all(path):
    """Whether every directory on the way to path, and path, lets others in: a
    home of mode 0700 on the way, with an interpreter in it, does not."""
    path = os.path.realpath(path)
    while True:
        try:
            if not os.stat(path).st_mode & 0o001:
                return False
        except OSError:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def _drop_capabilities():
    for cap in range(64):
        if not _prctl(PR_CAPBSET_DROP, cap):
            break  # not permitted, or past the last one
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    return _libc.capset(header, ctypes.create_string_buffer(24)) == 0


def _limit(cpu_seconds):
    held = True
    limits = [
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, 2 << 30),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 0),
    ]
    for what, value in limits:
        try:
            resource.setrlimit(what, (value, value))
        except (OSError, ValueError):
            held = False
    return held


def _landlock(readable):
    """Apply a Landlock domain; return the ABI it was made for, 0 for none."""
    abi = _libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return 0
    rights = FS_RIGHTS.get(abi, FS_RIGHTS_5)
    attr = struct.pack("=QQQ", rights, NET_RIGHTS if abi >= 4 else 0, SCOPES if abi >= 6 else 0)
    attr = attr[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    rules = _libc.syscall(LANDLOCK_CREATE, ctypes.create_string_buffer(attr, len(attr)),
                          ctypes.c_size_t(len(attr)), 0)
    if rules < 0:
        return 0
    try:
        for path in readable:
            _grant(rules, path)
        return abi if _libc.syscall(LANDLOCK_RESTRICT, rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _grant(rules, path):
    """Allow reading below path. One that is missing or refused stays shut."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = FS_READ_FILE | FS_EXECUTE
        if os.path.isdir(path):
            rights |= FS_READ_DIR
        rule = struct.pack("=Qi", rights, fd)
        _libc.syscall(LANDLOCK_ADD, rules, 1, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(fd)

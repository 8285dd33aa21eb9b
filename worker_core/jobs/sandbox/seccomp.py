"""A filter of system calls for jobs, as the program that the kernel runs before each call; Linux only.

What a training never needs and what other programs were attacked with is refused with EPERM: looking into other
processes, the kernel's key rings, loading code into the kernel, and new namespaces, in which a job would get the
capabilities back that it lost. Sockets are of the usual families only: others (vsock, which leads from a virtual
machine to its host) know no namespaces and would be a network where there is none. The numbers are those of the
kernel's ``syscall_64.tbl`` and ``unistd.h``; the format is that of ``struct sock_filter`` (linux/filter.h) over
``struct seccomp_data`` (linux/seccomp.h).
"""

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_UNKNOWN = 0x00050000 | errno.ENOSYS
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_CLONE_NEWUSER = 0x10000000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""
_X32_FROM = 0x40000000
_CLONE3 = 435


@dataclass(frozen=True)
class _Machine:
    """One architecture: its audit number, the numbers of ``clone`` and ``socket``, and the calls that are refused."""

    audit: int
    clone: int
    socket: int
    refused: dict[str, int]


_SINCE_5_1 = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}
"""Newer calls have one number on every machine."""

_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        56,
        41,
        {
            "ptrace": 101,
            "syslog": 103,
            "pivot_root": 155,
            "acct": 163,
            "mount": 165,
            "umount2": 166,
            "swapon": 167,
            "swapoff": 168,
            "reboot": 169,
            "init_module": 175,
            "delete_module": 176,
            "quotactl": 179,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "setns": 308,
            "kexec_load": 246,
            "finit_module": 313,
            "kexec_file_load": 320,
            "bpf": 321,
            "userfaultfd": 323,
            **_SINCE_5_1,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        220,
        198,
        {
            "ptrace": 117,
            "syslog": 116,
            "pivot_root": 41,
            "acct": 89,
            "mount": 40,
            "umount2": 39,
            "swapon": 224,
            "swapoff": 225,
            "reboot": 142,
            "init_module": 105,
            "delete_module": 106,
            "quotactl": 60,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "unshare": 97,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "setns": 268,
            "kexec_load": 104,
            "finit_module": 273,
            "kexec_file_load": 294,
            "bpf": 280,
            "userfaultfd": 282,
            **_SINCE_5_1,
        },
    ),
}


def system_call_filter(machine: str = platform.machine()) -> bytes | None:
    """Return the filter for ``machine`` as bwrap's ``--seccomp`` reads it; None where its numbers are not known."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    head = [_load(_ARCH_AT), _jump(_EQUAL, known.audit, 1, 0), _return(_REFUSE), _load(_NUMBER_AT)]
    # A second set of numbers for the same calls (x32) would be a way around all that follows.
    head += [_jump(_AT_LEAST, _X32_FROM, 0, 1), _return(_REFUSE)]
    # clone3 hides its flags from a filter; without it the C library takes clone, whose flags can be seen.
    head += [_jump(_EQUAL, _CLONE3, 0, 1), _return(_UNKNOWN)]
    calls = [part for number in known.refused.values() for part in (_jump(_EQUAL, number, 0, 1), _return(_REFUSE))]
    clone = [
        _jump(_EQUAL, known.clone, 0, 3),
        _load(_FIRST_ARGUMENT_AT),
        _jump(_ANY_BIT, _CLONE_NEWUSER, 0, 1),
        _return(_REFUSE),
    ]
    return b"".join((*head, *calls, *clone, *_sockets(known.socket), _return(_ALLOW)))


def _sockets(number: int) -> list[bytes]:
    families = [part for family in _FAMILIES for part in (_jump(_EQUAL, family, 0, 1), _return(_ALLOW))]
    inside = [_load(_FIRST_ARGUMENT_AT), *families, _return(_NO_FAMILY)]
    return [_load(_NUMBER_AT), _jump(_EQUAL, number, 0, len(inside)), *inside]


def _load(at: int) -> bytes:
    return struct.pack("=HBBI", _LOAD, 0, 0, at)


def _jump(kind: int, value: int, when: int, otherwise: int) -> bytes:
    return struct.pack("=HBBI", kind, when, otherwise, value)


def _return(value: int) -> bytes:
    return struct.pack("=HBBI", _RETURN, 0, 0, value)

"""A network of one's own: pages say 127.0.0.1:9092, and several tests run at the same time.

The same goes for folders: a page may name one outside the reader's own.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP_RUNNING = 0x41
MS_REC_PRIVATE = 0x4000 | 0x40000


def enter_private_network() -> bool:
    """This process and its children get an empty network with a loopback interface, and mounts
    that nobody else sees.

    False where the machine does not allow it. A process with threads cannot do it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) != 0:
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP_RUNNING))
    return True


def cover(folder: Path) -> None:
    """An empty folder in the place of this one, for this process and its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder.mkdir(parents=True, exist_ok=True)
    if libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "mounts cannot be made private")
    if libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "no empty folder can be mounted", str(folder))


def taken_ports(ports: tuple[int, ...]) -> list[int]:
    taken = []
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                taken.append(port)
    return taken

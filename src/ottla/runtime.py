"""The ports through which production code meets the world: time, randomness, network, disk.

Nothing below `ottla` reads a clock, draws a random number, opens a socket or a file except
through these. Waiting is done with asyncio (`asyncio.sleep`, `loop.call_later`): the simulator
replaces the event loop, so timers already follow its virtual time.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import ClassVar, Protocol, cast

from ottla.accepting import BACKLOG, Acceptor
from ottla.errors import OttlaError

LOCK_FILE = ".lock"


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch."""

    def monotonic_ms(self) -> float:
        """A clock that never goes back, for durations; milliseconds."""


class Server(Protocol):
    """A listening socket."""

    @property
    def port(self) -> int:
        """The port really bound (useful after asking for port 0)."""

    async def close(self) -> None:
        """Stops listening; open connections stay with their protocols."""


class Network(Protocol):
    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Server: ...

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class File(Protocol):
    """An open file. Appends go to the end; reads name their position."""

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Writes all of `data` at the end (short writes are completed)."""

    def read_at(self, size: int, position: int) -> bytes: ...

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None: ...

    def write_parts_at(self, parts: Sequence[memoryview], position: int) -> int:
        """As `write_at` for parts that follow each other in the file; how many bytes they have."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def send_at(self, socket_fd: int, size: int, position: int) -> int:
        """As `read_at`, into a socket (sendfile); how many bytes it took."""

    def is_cached(self, position: int) -> bool:
        """Whether a byte can be read without the disk; True where nobody can tell."""

    def prefetch(self, position: int, size: int) -> None:
        """These bytes will be read soon; does not wait for them."""

    def uncache(self, position: int, size: int) -> None:
        """The system need not keep these bytes in memory."""

    def sync(self) -> None:
        """fsync; blocking, so callers on the event loop hand it to `Runtime.blocking`."""

    def close(self) -> None: ...


class DirInUse(OttlaError):
    """Another process has the folder; `holder` is its pid, 0 where nobody can tell."""

    def __init__(self, folder: Path, holder: int = 0) -> None:
        self.folder = folder
        self.holder = holder
        if holder == os.getpid():
            text = "this process uses this folder already, perhaps by another name: name it once"
        else:
            who = f"process {holder}" if holder else "another process"
            advice = f"stop it first (kill {holder})" if holder else "stop it first"
            text = f"{who} is using this folder; {advice} or use another folder"
        super().__init__(f"Failed to acquire lock on file {LOCK_FILE} in {folder}: {text}")


class HeldLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """Files and folders, as far as a broker and the store need them."""

    def open(self, path: Path, *, create: bool = True) -> File: ...
    def read_bytes(self, path: Path) -> bytes: ...
    def write_atomically(self, path: Path, data: bytes) -> None:
        """`<path>.tmp`, fsync, rename, fsync of the folder."""

    def write_private(self, path: Path, data: bytes) -> None:
        """As `write_atomically`, for the owner alone."""

    def exists(self, path: Path) -> bool: ...
    def is_dir(self, path: Path) -> bool: ...
    def size(self, path: Path) -> int: ...
    def mtime_ms(self, path: Path) -> int: ...
    def size_and_mtime_ms(self, folder: Path, place: str) -> tuple[int, int]:
        """Of a file somewhere below the folder. A start asks for thousands, where a `Path` for each
        would cost more than the answer."""

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None: ...
    def list_dir(self, path: Path) -> list[str]:
        """Names in the folder, sorted."""

    def make_dirs(self, path: Path) -> None: ...
    def rename(self, source: Path, target: Path) -> None: ...
    def remove(self, path: Path) -> None:
        """Removes a file; a missing one is not an error."""

    def remove_tree(self, path: Path) -> None: ...
    def sync_dir(self, path: Path) -> None: ...
    def sync_all(self, paths: Collection[Path]) -> None:
        """fsync of files and folders, cheaper than one by one where they are many; those that are
        gone are left out. Blocking."""

    def lock(self, folder: Path) -> HeldLock:
        """Keeps other processes out of a folder until it is released or the process ends; raises
        DirInUse."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0


class _SystemServer:
    def __init__(self, server: asyncio.Server, acceptor: Acceptor | None) -> None:
        """With an acceptor the server has the addresses, and listens to none of them itself."""
        self._server = server
        self._acceptor = acceptor

    @property
    def port(self) -> int:
        return cast("int", self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        self._server.close()


class SystemNetwork:
    """TCP through the running event loop (uvloop in production)."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Server:
        loop = asyncio.get_running_loop()
        # asyncio's own loop accepts all who wait in one turn, libuv one.
        accepts_many = not type(loop).__module__.startswith("uvloop")
        server = await loop.create_server(
            protocol_factory,
            host,
            port,
            ssl=ssl_context,
            backlog=BACKLOG,
            reuse_address=True,
            start_serving=accepts_many,
        )
        if accepts_many:
            return _SystemServer(server, None)
        bound = [socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets]
        return _SystemServer(server, Acceptor(loop, bound, protocol_factory, ssl_context))

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(
            protocol_factory, host, port, ssl=ssl_context
        )
        return transport, protocol


_ASKS_THE_CACHE = hasattr(os, "RWF_NOWAIT") and hasattr(os, "posix_fadvise")


class SystemFile:
    """A file of the operating system, by its descriptor."""

    __slots__ = ("_fd", "_size")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self.write_at(data, self._size)

    def read_at(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        total = len(data)
        written = os.pwrite(self._fd, data, position)
        while written < total:
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)
        self._size = max(self._size, position + total)

    def write_parts_at(self, parts: Sequence[memoryview], position: int) -> int:
        total = sum(map(len, parts))
        written = os.pwritev(self._fd, parts, position)
        if written < total:
            # Rare: a full disk says so with the next call.
            self.write_at(b"".join(parts)[written:], position + written)
        self._size = max(self._size, position + total)
        return total

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    def size(self) -> int:
        return self._size

    def send_at(self, socket_fd: int, size: int, position: int) -> int:
        return os.sendfile(socket_fd, self._fd, position, size)

    def is_cached(self, position: int) -> bool:
        if not _ASKS_THE_CACHE:
            return True
        try:
            os.preadv(self._fd, [bytearray(1)], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system that does not answer such questions
        return True

    def prefetch(self, position: int, size: int) -> None:
        if _ASKS_THE_CACHE:
            os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_WILLNEED)

    def uncache(self, position: int, size: int) -> None:
        if _ASKS_THE_CACHE:
            os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FolderLock:
    """`.lock` in a folder, locked as Java's FileLock does it: Apache Kafka's brokers and Ottla's
    keep each other out.

    Such a lock (POSIX, fcntl) belongs to a process: a child does not inherit it, the same process
    would get it a second time, and closing any descriptor of the file gives it up. Therefore the
    process remembers its own locks, and does not even open the file where it has one.
    """

    _own: ClassVar[dict[tuple[int, int, int], FolderLock]] = {}

    def __init__(self, folder: Path) -> None:
        self._fd = -1
        found = folder.stat()
        self._key = (os.getpid(), found.st_dev, found.st_ino)
        if self._own.setdefault(self._key, self) is not self:
            raise DirInUse(folder, os.getpid())
        try:
            self._fd = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            if self._fd < 0:  # the file is not ours to open
                self.release()
                raise
            holder = _lock_holder(self._fd)
            self.release()
            raise DirInUse(folder, holder) from None
        except BaseException:
            self.release()
            raise
        # The pid is there for people who look: the lock holds without it, on a full disk too.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._own.get(self._key) is self:
            del self._own[self._key]
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def folder_holder(folder: Path) -> int | None:
    """Who has a folder's lock: None for nobody, 0 where nobody can tell. For processes that have no
    lock of their own there: looking would give it up."""
    try:
        fd = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _TELLS_HOLDERS:
            # Asked without taking it: whoever starts at this moment must not find it taken.
            return _lock_holder(fd) if _is_locked(fd) else None
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return _lock_holder(fd)
    finally:
        os.close(fd)
    return None


_FLOCK = "hhqqi4x"  # struct flock of Linux on 64 bits: type, whence, start, length, pid
_TELLS_HOLDERS = sys.platform == "linux" and struct.calcsize("P") == 8


def _lock_holder(fd: int) -> int:
    """The pid of whoever has the lock, from the system: a Java broker writes none into the file,
    and what stands there may be an older one's."""
    if _TELLS_HOLDERS:
        kind, pid = _ask_for_lock(fd)
        # In another container it has no pid that means anything here.
        return pid if kind != fcntl.F_UNLCK and pid > 0 else 0
    written = os.pread(fd, 20, 0).strip()
    return int(written) if written.isdigit() else 0


def _is_locked(fd: int) -> bool:
    return _ask_for_lock(fd)[0] != fcntl.F_UNLCK


def _ask_for_lock(fd: int) -> tuple[int, int]:
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return kind, pid


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """The whole file at once, synced, under its name. The temporary one is always made anew: what
    somebody has put there, a link for instance, is taken away and not written through."""
    temporary = path.with_name(path.name + ".tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(temporary, flags, mode)
    except FileExistsError:
        temporary.unlink()
        fd = os.open(temporary, flags, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)


# Above this, one commit of the whole file system is cheaper than a commit for each file.
_SYNCED_ONE_BY_ONE = 100


class SystemDisk:
    """The real file system, as the Disk port."""

    def open(self, path: Path, *, create: bool = True) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(os.open(path, flags, 0o644))

    def read_bytes(self, path: Path) -> bytes:
        return path.read_bytes()

    def write_atomically(self, path: Path, data: bytes) -> None:
        replace_file(path, data, 0o644)
        self.sync_dir(path.parent)

    def write_private(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        temporary.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = SystemFile(os.open(temporary, flags, 0o600))
        try:
            file.append(data)
            file.sync()
        finally:
            file.close()
        temporary.replace(path)
        self.sync_dir(path.parent)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        return path.is_dir()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def mtime_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def size_and_mtime_ms(self, folder: Path, place: str) -> tuple[int, int]:
        found = os.stat(f"{folder}/{place}")  # noqa: PTH116  on a hot path
        return found.st_size, found.st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def list_dir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208  several times as fast as iterdir

    def make_dirs(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        import shutil  # rare path: keeps the broker's import time down

        shutil.rmtree(path, ignore_errors=True)

    def sync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, paths: Collection[Path]) -> None:
        if len(paths) > _SYNCED_ONE_BY_ONE and _sync_file_systems(paths):
            return
        for path in paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def lock(self, folder: Path) -> HeldLock:
        return FolderLock(folder)


def _sync_file_systems(paths: Collection[Path]) -> bool:
    """syncfs(2) for each file system that these are on; false where the system has no such call.

    One journal commit instead of one for each file. It also waits for what others wrote, and it
    tells only of errors from now on, where fsync also tells of those that nobody has seen yet.
    """
    import ctypes  # for this call alone

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return False
    devices: dict[int, Path] = {}
    for path in paths:
        with suppress(FileNotFoundError):
            devices.setdefault(os.stat(path).st_dev, path)  # noqa: PTH116  on a hot path
    for path in devices.values():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(fd)
    return True


class Worker(Executor):
    """A thread of its own for `Runtime.blocking`, for work that is short and comes often.

    A round trip through asyncio's thread pool costs as much as a quick fsync; this one hands
    out futures of the event loop itself and costs half. Calls are done one after the other.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[asyncio.Future[None], Callable[[], None]] | None]
        self._calls = SimpleQueue()
        self._thread: Thread | None = None

    def submit(  # type: ignore[override]  # asyncio takes its own futures as they are
        self, call: Callable[[], None]
    ) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True, name="ottla-worker")
            self._thread.start()
        self._calls.put((future, call))
        return future

    def close(self) -> None:
        """Ends the thread after the calls that it has; the next call starts another."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            failure: BaseException | None = None
            try:
                call()
            except BaseException as error:
                failure = error
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                future.get_loop().call_soon_threadsafe(_finish, future, failure)


def _finish(future: asyncio.Future[None], failure: BaseException | None) -> None:
    if future.done():  # whoever waited was cancelled
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The four ports together, as handed to everything that needs more than one."""

    clock: Clock
    random: random.Random
    network: Network
    disk: Disk

    async def blocking(self, call: Callable[[], None], worker: Worker | None = None) -> None:
        """Runs file work that may stall (fsync, recovery scan, deletion) off the event loop."""
        await asyncio.get_running_loop().run_in_executor(worker, call)


def system_runtime() -> Runtime:
    return Runtime(SystemClock(), random.SystemRandom(), SystemNetwork(), SystemDisk())

"""A process that is all members of many groups: plain sockets, one epoll, no client library.

`python -m ottla.bench.groups.crowd` takes its orders as JSON on standard input and answers with one
line of JSON. It has a process of its own so that its CPU can be told from that of the brokers.
"""

from __future__ import annotations

import itertools
import json
import resource
import select
import socket
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from ottla.bench.groups import requests
from ottla.bench.groups.requests import GroupFailed
from ottla.bench.processes import cpu_by_process, cpu_since
from ottla.errors import ErrorCode

# An Apache Kafka broker lets 50 connections wait (socket.listen.backlog.size): whoever comes then
# comes again after a second.
_CONNECTING_AT_ONCE = 16
_BETWEEN_CONNECTS_S = 0.004
_PATIENCE_S = 120.0
_RETRY_S = 0.05
_READ_BYTES = 64 * 1024
_EVENTS_AT_ONCE = 256
_DESCRIPTORS_TO_SPARE = 100


@dataclass(frozen=True)
class Orders:
    """What the crowd does."""

    host: str
    port: int
    prefix: str
    topic: str
    groups: int
    # Of each group.
    members: int
    # How many members share a connection, each of another group.
    waves: int
    storm_s: float
    calm_s: float
    calm_rate: int
    # The processes of the cluster, whose CPU is counted.
    pids: tuple[int, ...]


class Storm(NamedTuple):
    """Answers to one kind of request in a span of time, latencies in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float
    # What the cluster took for each of them, in microseconds.
    cpu_us: float
    # What this process took of a core.
    own_share: float
    # The longest that a member had no answer.
    most_patient_ms: float


class Repeated(NamedTuple):
    """The requests that each connection sends in turn, and the one answer to all of them."""

    frames: Mapping[int, Sequence[bytes]]
    answers: Mapping[int, bytes]


class Costs(NamedTuple):
    """CPU seconds of the cluster, and of this process."""

    cluster_s: float
    own_s: float


class Line:
    """One connection, which a few members share; one request under way."""

    __slots__ = ("_part", "members", "owner", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.members: list[Member] = []
        # Whose request is under way.
        self.owner: Member | None = None
        self._part = b""

    def answer(self) -> bytes | None:
        """The next one, with its length; None while it is incomplete."""
        received = self.sock.recv(_READ_BYTES)
        if not received:
            raise GroupFailed("the broker closed a connection")
        data = self._part + received
        whole = len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big")
        self._part = b"" if whole else data
        return data if whole else None


class Step(Enum):
    """What the answer under way is to, while a member joins."""

    NAME = "the first JoinGroup"
    JOIN = "JoinGroup with an id"
    SYNC = "SyncGroup"
    BEAT = "Heartbeat"


class Member:
    __slots__ = ("generation", "group", "line", "member_id", "number", "step")

    def __init__(self, line: Line, group: str, number: int) -> None:
        self.line = line
        self.group = group
        self.number = number
        self.member_id = ""
        self.step = Step.NAME
        self.generation = -1


class Crowd:
    """All connections, and the epoll that they share."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._epoll = select.epoll()
        self._waiting = 0
        self.lines: dict[int, Line] = {}

    def connect(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        orders = self._orders
        wanted = orders.groups // orders.waves * orders.members
        if wanted + _DESCRIPTORS_TO_SPARE > hard:
            raise GroupFailed(f"{wanted} connections need `ulimit -n` above {hard}")
        for start in range(0, wanted, _CONNECTING_AT_ONCE):
            self._connect_some(min(_CONNECTING_AT_ONCE, wanted - start))
            time.sleep(_BETWEEN_CONNECTS_S)
        # Members that share a line have the same number, and so the same answers.
        for place, line in enumerate(self.lines.values()):
            group, number = divmod(place, orders.members)
            for wave in range(orders.waves):
                name = f"{orders.prefix}-{wave}-{group}"
                line.members.append(Member(line, name, number))

    def _connect_some(self, count: int) -> None:
        waiting = {}
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect_ex((self._orders.host, self._orders.port))
            self._epoll.register(sock.fileno(), select.EPOLLOUT)
            waiting[sock.fileno()] = Line(sock)
        until = time.monotonic() + _PATIENCE_S
        while waiting:
            if time.monotonic() > until:
                raise GroupFailed(f"{len(waiting)} connections were not accepted")
            for fd, _ in self._epoll.poll(1.0):
                line = waiting.pop(fd, None)
                if line is None or line.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise GroupFailed(f"the broker closed a connection, {len(self.lines)} are open")
                self._epoll.modify(fd, select.EPOLLIN)
                self.lines[fd] = line

    def close(self) -> None:
        for line in self.lines.values():
            line.sock.close()
        self._epoll.close()

    def each_asks(
        self, asked: Iterable[tuple[Member, bytes]], answered: Callable[[Member, bytes], None]
    ) -> None:
        """Sends requests, and more where `answered` says so by `ask`; ends with the last answer."""
        for member, data in asked:
            self.ask(member, data)
        until = time.monotonic() + _PATIENCE_S
        while self._waiting:
            if time.monotonic() > until:
                raise GroupFailed(f"{self._waiting} requests were not answered")
            for fd, _ in self._epoll.poll(1.0, _EVENTS_AT_ONCE):
                line = self.lines[fd]
                answer = line.answer()
                if answer is not None and line.owner is not None:
                    self._waiting -= 1
                    member, line.owner = line.owner, None
                    answered(member, answer)

    def ask(self, member: Member, data: bytes) -> None:
        self._waiting += 1
        member.line.owner = member
        member.line.sock.send(data)

    # --- many of the same -------------------------------------------------------------------

    def storm(self, work: Repeated, seconds: float) -> Storm:
        """Every connection has a request under way all the time."""
        clock, poll = time.perf_counter, self._epoll.poll
        receive = {fd: line.sock.recv for fd, line in self.lines.items()}
        send = {fd: line.sock.send for fd, line in self.lines.items()}
        frames = {fd: itertools.cycle(each) for fd, each in work.frames.items()}
        wanted = work.answers
        latencies = array("d")
        note = latencies.append
        spent = self._spending()
        started = now = clock()
        sent = {}
        for fd, each in frames.items():
            sent[fd] = clock()
            send[fd](next(each))
        ends = started + seconds
        while now < ends:
            for fd, _ in poll(1.0, _EVENTS_AT_ONCE):
                data = receive[fd](_READ_BYTES)
                if data != wanted[fd]:
                    self._check(fd, data, wanted[fd])
                now = clock()
                note(now - sent[fd])
                sent[fd] = now
                send[fd](next(frames[fd]))
            now = clock()
        taken, costs = now - started, spent()
        most_patient = max(max(latencies, default=0.0), now - min(sent.values()))
        self._drain(len(sent), wanted)
        return _storm(latencies, taken, costs, most_patient)

    def calm(self, work: Repeated, seconds: float, rate: int) -> Storm:
        """`rate` requests each second, by one connection after the other."""
        clock, wanted = time.perf_counter, work.answers
        idle: deque[tuple[int, Iterator[bytes]]] = deque(
            (fd, itertools.cycle(each)) for fd, each in work.frames.items()
        )
        # Since when a request was due: whoever is late makes others wait.
        under_way: dict[int, tuple[float, Iterator[bytes]]] = {}
        latencies = array("d")
        spent = self._spending()
        started = clock()
        asked, total = 0, int(seconds * rate)
        while len(latencies) < total:
            now = clock()
            if now - started > seconds + _PATIENCE_S:
                raise GroupFailed(f"{len(under_way)} requests were not answered")
            due = min(total, int((now - started) * rate) + 1)
            while asked < due and idle:
                fd, frames = idle.popleft()
                under_way[fd] = started + asked / rate, frames
                self.lines[fd].sock.send(next(frames))
                asked += 1
            wait_s = max(started + asked / rate - clock(), 0.0) if asked < total and idle else 1.0
            for fd, _ in self._epoll.poll(wait_s, _EVENTS_AT_ONCE):
                data = self.lines[fd].sock.recv(_READ_BYTES)
                if data != wanted[fd]:
                    self._check(fd, data, wanted[fd])
                since, frames = under_way.pop(fd)
                latencies.append(clock() - since)
                idle.append((fd, frames))
        return _storm(latencies, clock() - started, spent(), max(latencies))

    def _spending(self) -> Callable[[], Costs]:
        """Call it again for what was spent meanwhile."""
        pids = self._orders.pids
        before, own_before = cpu_by_process(pids), time.process_time()
        return lambda: Costs(
            cpu_since(before, cpu_by_process(pids)), time.process_time() - own_before
        )

    def _check(self, fd: int, data: bytes, wanted: bytes) -> None:
        """An answer may come in two parts; another one than what was wanted ends it all."""
        sock = self.lines[fd].sock
        sock.settimeout(_PATIENCE_S)
        while data and len(data) < len(wanted):
            more = sock.recv(len(wanted) - len(data))
            if not more:
                break
            data += more
        sock.setblocking(False)
        if data != wanted:
            raise GroupFailed(f"a member was answered {data!r}, not {wanted!r}")

    def _drain(self, count: int, wanted: Mapping[int, bytes]) -> None:
        """The answers that are under way at the end of a storm."""
        until = time.monotonic() + _PATIENCE_S
        while count:
            if time.monotonic() > until:
                raise GroupFailed(f"{count} requests were not answered")
            for fd, _ in self._epoll.poll(1.0, _EVENTS_AT_ONCE):
                data = self.lines[fd].sock.recv(_READ_BYTES)
                if data != wanted[fd]:
                    self._check(fd, data, wanted[fd])
                count -= 1


def _storm(latencies: array[float], taken_s: float, costs: Costs, most_patient_s: float) -> Storm:
    if not latencies:
        raise GroupFailed("no request was answered in time")
    ordered = sorted(latencies)
    return Storm(
        len(ordered) / taken_s,
        1000 * ordered[len(ordered) // 2],
        1000 * ordered[len(ordered) * 99 // 100],
        1e6 * costs.cluster_s / len(ordered),
        costs.own_s / taken_s,
        1000 * most_patient_s,
    )


class Groups:
    """The members of a crowd as groups: how they join, and what they send when they have.

    Those that share a connection join one after the other, in waves: a JoinGroup keeps the
    connection until the whole group is there.
    """

    def __init__(self, crowd: Crowd, orders: Orders) -> None:
        self._crowd = crowd
        self._orders = orders
        self._waves: list[dict[str, list[Member]]] = []
        for wave in range(orders.waves):
            groups: dict[str, list[Member]] = {}
            for line in crowd.lines.values():
                member = line.members[wave]
                groups.setdefault(member.group, []).append(member)
            self._waves.append(groups)
        # As many members as its leader was told of.
        self._sizes: dict[str, int] = {}
        # How many of a group have still to be given their ids.
        self._unnamed = {name: orders.members for groups in self._waves for name in groups}

    def find_coordinator(self) -> None:
        """Returns when the broker coordinates all of the groups."""
        until = time.monotonic() + _PATIENCE_S
        late: list[str] = []

        def found(member: Member, data: bytes) -> None:
            if requests.read_error(data) is not ErrorCode.NONE:
                late.append(member.group)

        def beaten(member: Member, data: bytes) -> None:
            # A coordinator that loads its groups says NONE. A byte of tags is in front.
            if requests.read_error(data[1:]) is not ErrorCode.UNKNOWN_MEMBER_ID:
                late.append(member.group)

        for groups in self._waves:
            name, members = next(iter(groups.items()))
            late.append(name)
            while late:
                self._wait(until)
                late.clear()
                searching = requests.find_coordinator(name)
                self._crowd.each_asks([(members[0], searching)], found)
            late += groups
            while late:
                self._wait(until)
                asked = [(groups[each][0], requests.heartbeat(each, 0, "nobody")) for each in late]
                late.clear()
                self._crowd.each_asks(asked, beaten)

    def _wait(self, until: float) -> None:
        if time.monotonic() > until:
            raise GroupFailed("the groups have no coordinator")
        time.sleep(_RETRY_S)

    def join(self) -> float:
        """Seconds from the first JoinGroup until every member has its assignment."""
        topic, taken_s = self._orders.topic, 0.0
        for groups in self._waves:
            joining = [
                (member, data)
                for name, members in groups.items()
                for data in (requests.join(name, topic),)
                for member in members
            ]
            began = time.perf_counter()
            self._crowd.each_asks(joining, partial(self._answered, groups))
            taken_s += time.perf_counter() - began
        return taken_s

    def _answered(self, groups: dict[str, list[Member]], member: Member, data: bytes) -> None:
        match member.step:
            case Step.NAME:
                self._named(groups, member, data)
            case Step.JOIN:
                self._joined(member, data)
            case Step.SYNC:
                self._synced(member, requests.read_error(data))
            case Step.BEAT:
                # A byte of tags is in front of a flexible answer.
                self._synced(member, requests.read_error(data[1:]))

    def _named(self, groups: dict[str, list[Member]], member: Member, data: bytes) -> None:
        """KIP-394: the first answer is an id, with which one joins. Nobody does before all have
        theirs: so a group is whole in its first generation, unless the broker is late."""
        answer = requests.read_join(data)
        if answer.error is not ErrorCode.MEMBER_ID_REQUIRED:
            raise GroupFailed(f"{member.group}: {answer.error.name} instead of an id")
        member.member_id = answer.member_id
        self._unnamed[member.group] -= 1
        if not self._unnamed[member.group]:
            for each in groups[member.group]:
                self._join(each)

    def _join(self, member: Member) -> None:
        member.step = Step.JOIN
        joining = requests.join(member.group, self._orders.topic, member.member_id)
        self._crowd.ask(member, joining)

    def _joined(self, member: Member, data: bytes) -> None:
        answer = requests.read_join(data)
        if answer.error is not ErrorCode.NONE:
            raise GroupFailed(f"{member.group}: JoinGroup failed with {answer.error.name}")
        if answer.members:
            self._sizes[member.group] = len(answer.members)
        member.generation, member.step = answer.generation, Step.SYNC
        syncing = requests.sync(member.group, answer.generation, member.member_id, answer.members)
        self._crowd.ask(member, syncing)

    def _synced(self, member: Member, error: ErrorCode) -> None:
        """What a consumer does: it joins again where the group does, and looks whether it does."""
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._join(member)
        elif error is not ErrorCode.NONE:
            raise GroupFailed(f"{member.group}: a member was told {error.name}")
        elif self._sizes[member.group] < self._orders.members:
            member.step = Step.BEAT
            beat = requests.heartbeat(member.group, member.generation, member.member_id)
            self._crowd.ask(member, beat)

    def commits(self) -> Repeated:
        topic = self._orders.topic
        answers = [requests.commit_answer(topic, n) for n in range(self._orders.members)]
        return Repeated(
            {
                fd: [
                    requests.commit(each.group, each.generation, each.member_id, topic, each.number)
                    for each in line.members
                ]
                for fd, line in self._crowd.lines.items()
            },
            {fd: answers[line.members[0].number] for fd, line in self._crowd.lines.items()},
        )

    def heartbeats(self) -> Repeated:
        sent = {
            fd: [
                requests.heartbeat(each.group, each.generation, each.member_id)
                for each in line.members
            ]
            for fd, line in self._crowd.lines.items()
        }
        return Repeated(sent, dict.fromkeys(sent, requests.heartbeat_answer()))

    def leave(self) -> None:
        """One member says goodbye for all of its group."""
        for groups in self._waves:
            self._crowd.each_asks(
                [
                    (members[0], requests.leave(name, [each.member_id for each in members]))
                    for name, members in groups.items()
                ],
                lambda _member, _data: None,
            )


def run(orders: Orders) -> dict[str, Any]:
    crowd = Crowd(orders)
    try:
        return _lead(crowd, orders)
    finally:
        crowd.close()


def _lead(crowd: Crowd, orders: Orders) -> dict[str, Any]:
    began = time.perf_counter()
    crowd.connect()
    connected_s = time.perf_counter() - began
    groups = Groups(crowd, orders)
    groups.find_coordinator()
    before = cpu_by_process(orders.pids)
    joined_s = groups.join()
    join_cpu_s = cpu_since(before, cpu_by_process(orders.pids))
    commits = groups.commits()
    storm = crowd.storm(commits, orders.storm_s)
    calm = crowd.calm(commits, orders.calm_s, orders.calm_rate)
    beats = crowd.storm(groups.heartbeats(), orders.calm_s)
    groups.leave()
    return {
        "connected_s": connected_s,
        "joined_s": joined_s,
        "join_cpu_s": join_cpu_s,
        "storm": storm,
        "calm": calm,
        "beats": beats,
    }


def main() -> None:
    given = json.loads(sys.stdin.read())
    try:
        result = run(Orders(**{**given, "pids": tuple(given["pids"])}))
    except (GroupFailed, OSError) as error:
        sys.exit(f"the groups failed: {error}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

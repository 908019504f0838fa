"""`python -m tests.support.documents.reader PAGE FOLDER`: does what a page says, top to bottom.

A process of its own, because it goes to a private network first. What installs is done before
that, as it needs the package registries; everything else in the order of the page. Prints what
it does; the first thing that goes wrong ends it with exit code 1.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.support.documents.blocks import Block, Command, blocks, commands, page_text
from tests.support.documents.plan import PLANS, PagePlan
from tests.support.documents.private_network import cover, enter_private_network, taken_ports
from tests.support.documents.shown_output import first_not_printed

COMMAND_TIMEOUT_S = 300
# Long enough for a dead broker's session to run out, and for what a page shows after that.
SHOWN_TIMEOUT_S = 60
STOP_TIMEOUT_S = 90
DOCUMENTED_PORTS = (2181, 9092, 9093, 9094)
NO_NETWORK = 3
INTERRUPTED = 130
INSTALLERS = ("pip ", "make wheel")


class PageFailed(Exception):
    """What the page says does not hold; the message says where."""


class Reader:
    """Somebody with a shell: a folder, an environment, and what was left running in it."""

    def __init__(self, page: str, plan: PagePlan, folder: Path) -> None:
        self._page = page
        self._plan = plan
        self._folder = folder
        self._running: list[_Terminal] = []
        self._seen: Counter[str] = Counter()  # blocks by language

    def install(self) -> None:
        for block in blocks(page_text(self._page)):
            for command in self._commands(block):
                if command.text.startswith(INSTALLERS):
                    self._do(command)

    def read(self) -> None:
        try:
            for text in self._plan.before:
                self._do(Command(0, text))
            for block in blocks(page_text(self._page)):
                self._read_block(block)
            for text in self._plan.after:
                self._do(Command(0, text))
        finally:
            for terminal in reversed(self._running):
                terminal.end()
        for terminal in self._running:
            if terminal.code not in (0, INTERRUPTED):
                raise PageFailed(f"{terminal.text}: exit code {terminal.code} after Ctrl-C")

    def _commands(self, block: Block) -> list[Command]:
        return [found for found in commands(block) if found.text not in self._plan.left_out]

    def _read_block(self, block: Block) -> None:
        for command in self._commands(block):
            if not command.text.startswith(INSTALLERS):
                self._do(command)
        self._seen[block.language] += 1
        key = f"{block.language} {self._seen[block.language]}"
        if key in self._plan.files:
            self._save(self._plan.files[key], block)
        elif block.language == "python":
            self._run_python(key, block)

    def _save(self, name: str, block: Block) -> None:
        path = self._folder / name
        if path.exists() and path.read_text() != block.text:
            raise PageFailed(f"line {block.line}: {name} is not what the page shows")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        print(f"-- wrote {name}", flush=True)

    def _run_python(self, key: str, block: Block) -> None:
        is_test = "\ndef test_" in "\n" + block.text
        name = f"{'test_' if is_test else ''}{key.replace(' ', '_')}.py"
        (self._folder / name).write_text(block.text + "\n" + self._plan.then.get(key, ""))
        program = "pytest -q -p no:cacheprovider -c /dev/null --rootdir ." if is_test else "python"
        self._do(Command(block.line, f"{program} {name}"))

    def _do(self, command: Command) -> None:
        print(f"-- line {command.line}: {command.text}", flush=True)
        began = time.monotonic()
        self._do_it(command)
        print(f"-- took {time.monotonic() - began:.1f} s", flush=True)

    def _do_it(self, command: Command) -> None:
        text = command.text
        for shown, real in self._plan.drawn.items():
            if shown in text:
                text = text.replace(shown, self._output_of(real).strip())
        until = self._plan.stays.get(command.text)
        if until is not None:
            self._leave_running(command, text, until)
            return
        deadline = time.monotonic() + SHOWN_TIMEOUT_S
        while True:
            output = self._output_of(text)
            missing = first_not_printed(command.shown, output)
            if missing is None:
                print(output, end="", flush=True)
                return
            # Only what changes nothing is asked again, until the cluster is where the page says.
            if "--describe" not in text or time.monotonic() > deadline:
                raise PageFailed(f"line {command.line}: not printed: {missing!r} in:\n{output}")
            time.sleep(0.5)

    def _output_of(self, text: str) -> str:
        # Into a file, as to a terminal: who outlives the command does not hold up its end.
        with tempfile.TemporaryFile("w+") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"set -o pipefail; {text}"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(COMMAND_TIMEOUT_S)
                in_time = True
            except subprocess.TimeoutExpired:
                in_time = False
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            file.seek(0)
            output = file.read()
        if not in_time:
            raise PageFailed(f"{text}: does not end\n{output[-6000:]}")
        if process.returncode != 0:
            raise PageFailed(f"{text}: exit code {process.returncode}\n{output[-6000:]}")
        return output

    def _leave_running(self, command: Command, text: str, until: str) -> None:
        """Until it has done what the page says; servers stay to the end, others get Ctrl-C."""
        terminal = _Terminal(text, self._folder)
        self._running.append(terminal)
        deadline = time.monotonic() + COMMAND_TIMEOUT_S
        while True:
            time.sleep(0.5)
            missing = first_not_printed(command.shown, terminal.output, on_a_terminal=True)
            if missing is None and self._holds(until):
                break
            if terminal.code is not None or time.monotonic() > deadline:
                words = f"not printed: {missing!r}" if missing else f"not true: {until}"
                raise PageFailed(f"line {command.line}: {words} in:\n{terminal.output[-6000:]}")
        print(terminal.output[-2000:], flush=True)
        if not text.startswith(("ottla up", "ottla broker")):
            terminal.end()

    def _holds(self, check: str) -> bool:
        with contextlib.suppress(PageFailed):
            self._output_of(check)
            return True
        return False


class _Terminal:
    """A command that runs until Ctrl-C, in a terminal of its own."""

    def __init__(self, text: str, folder: Path) -> None:
        self.text = text
        self.output = ""
        self._descriptor, child_side = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {text}"],
            cwd=folder,
            stdin=child_side,
            stdout=child_side,
            stderr=child_side,
            start_new_session=True,
            # As the signal's default is lost where a shell started us in its background.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "COLUMNS": "160", "LINES": "50", "TERM": "xterm"},
        )
        os.close(child_side)

        # Read all the time: a broker whose terminal is full stands still.
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other side is closed
            while chunk := os.read(self._descriptor, 65536):
                self.output += chunk.decode(errors="replace")

    def end(self) -> None:
        if self.code is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _go_apart(plan: PagePlan) -> bool:
    if enter_private_network():
        for folder in plan.fresh:
            cover(Path(folder))
        return True
    if taken := taken_ports(DOCUMENTED_PORTS):
        print(f"no network of one's own on this machine, and ports {taken} are taken")
        return False
    for folder in plan.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def main() -> int:
    page, folder = sys.argv[1], Path(sys.argv[2])
    reader = Reader(page, PLANS[page], folder)
    try:
        reader.install()
        if not _go_apart(PLANS[page]):
            return NO_NETWORK
        reader.read()
    except PageFailed as failure:
        print(f"{page}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

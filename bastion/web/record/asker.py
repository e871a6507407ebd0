"""The process that queries the record for the pages: started on demand, ended when idle."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Sequence
from threading import Lock, Thread
from typing import IO

from bastion.clock import Clock
from bastion.errors import BastionError
from bastion.own_program import own_program
from bastion.records.coding.codec import decode, encode
from bastion.web.record.question import Period
from bastion.web.record.summary import FAILED, Summary

DEADLINE_S = 60.0
PROGRAM = tuple(own_program("bastion.web.record.child"))
_CHUNK = 1 << 16


class RecordChild:
    """
    Queries the record of the bucket at `url` in a separate process, one question at a time.

    Args:
        url: Of the bucket.
        clock: For the deadline of an answer.
        program: The program to run for it, without the URL.
    """

    def __init__(self, url: str, clock: Clock, program: Sequence[str] = PROGRAM) -> None:
        self._url = url
        self._clock = clock
        self._program = program
        self._lock = Lock()
        self._turn = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """Its temporary files, which remain if it is killed."""
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """ID of the process; None if there is none."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def ask(self, period: Period) -> Summary:
        """See `Ask`."""
        with self._turn:
            state, data = self._answer(encode(period) + b"\n")
        if state == FAILED:
            raise BastionError(data.decode(errors="replace"))
        return decode(Summary, data, key="the record")

    def close(self) -> None:
        """End the process; otherwise this one would wait for it and end a minute late."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            if self._folder is not None:
                self._folder.cleanup()

    def _answer(self, question: bytes) -> tuple[str, bytes]:
        is_warm = self.pid is not None
        try:
            return self._asked(question)
        except EOFError:
            if not is_warm:
                raise BastionError(f"the record cannot be read: {self._last_words()}") from None
        # It ended between two questions, as it does after a minute: a new one gets the question.
        try:
            return self._asked(question)
        except EOFError:
            raise BastionError(f"the record cannot be read: {self._last_words()}") from None

    def _asked(self, question: bytes) -> tuple[str, bytes]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = self._clock.monotonic() + DEADLINE_S
        try:
            process.stdin.write(question)
            process.stdin.flush()
            answer = _Answer(process.stdout.fileno(), self._clock, deadline)
            state, size = json.loads(answer.line())
            return state, answer.body(size)
        except TimeoutError:
            process.kill()
            raise BastionError(f"the record gave no answer within {DEADLINE_S:g} s") from None
        except (OSError, ValueError, EOFError):
            process.kill()
            process.wait()
            raise EOFError from None

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started now if none is running."""
        with self._lock:
            if self._is_closed:
                raise BastionError("the server is stopping")
            process = self._process
            if process is not None and process.poll() is None:
                return process
            if process is not None and process.stdin is not None and process.stdout is not None:
                process.stdin.close()
                process.stdout.close()
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the program
            if self._folder is not None:
                self._folder.cleanup()
            self._folder = tempfile.TemporaryDirectory(
                prefix="bastion-web-", ignore_cleanup_errors=True
            )
            try:
                process = subprocess.Popen(
                    [*self._program, self._url],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    env={**os.environ, "TMPDIR": self._folder.name},
                    bufsize=0,
                )
            except OSError as error:
                raise BastionError(f"the record cannot be queried: {error.strerror}") from None
            Thread(target=process.wait, daemon=True).start()  # reaps it
            self._process = process
            return process

    def _last_words(self) -> str:
        if self._errors is None:
            return "no message"
        self._errors.seek(0)
        lines = self._errors.read(_CHUNK).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"


class _Answer:
    """The bytes of one answer, read until a deadline."""

    def __init__(self, file: int, clock: Clock, deadline: float) -> None:
        self._file = file
        self._clock = clock
        self._deadline = deadline
        self._data = b""

    def line(self) -> bytes:
        while b"\n" not in self._data:
            self._data += self._more()
        line, self._data = self._data.split(b"\n", 1)
        return line

    def body(self, size: int) -> bytes:
        parts, has = [self._data], len(self._data)
        while has < size:
            parts.append(self._more())
            has += len(parts[-1])
        return b"".join(parts)

    def _more(self) -> bytes:
        left_s = max(0.0, self._deadline - self._clock.monotonic())
        if not select.select([self._file], [], [], left_s)[0]:
            raise TimeoutError
        data = os.read(self._file, _CHUNK)
        if not data:
            raise EOFError
        return data

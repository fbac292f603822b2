"""The socket to the host: framing, sending from any thread, and handing each frame that comes to whoever waits for it.

`kept.extend(map(write, (fd,), (data,)))` stands where one would write `size = write(fd, data)`: it is one step of the
interpreter, so a signal handler that raises cannot come between the call and the keeping of its result. For the same reason
frames are put and taken by assignment and `del`, not by `append` and `pop`.
"""

from __future__ import annotations

from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket
from _thread import RLock, allocate_lock
from os import _exit, close, write

from . import BUILTINS as __builtins__
from .packages import extend
from .wire import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .wire import Frame

LOST = 70  # the exit status of a head whose channel is gone
_CHUNK = 65536
_DESCRIPTOR = 4  # the bytes of one in a message
_ROOM = CMSG_SPACE(_DESCRIPTOR)
_GLANCES = ("vars", "inspect", "complete", "inspect_at", "is_complete")
_ANSWERS = ("tool_result", "tool_content", "input")


class Mailbox:
    """A waiting thread's frames, the newest first. Its bell rings when one has come, and when the channel needs a reader."""

    __slots__ = ("_bell", "frames")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._bell = allocate_lock()
        self._bell.acquire()

    def ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:  # it has rung and was not heard yet
            pass

    def listen(self) -> None:
        # The time-out only matters when a signal handler raised just as the bell was to be rung.
        self._bell.acquire(True, 0.05)


class Channel:
    """One generation's socket. No thread is kept for reading: a thread that waits for a frame reads, for the others too."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.owned = True
        self._socket = socket(fileno=fd) if fd >= 0 else None
        self._generation = 0
        self._enclosed = -1
        self._buffer = bytearray()
        self._sending = RLock()  # a signal handler may print or call a tool while its thread is sending
        self._midway = False
        self._reading = allocate_lock()
        self._requests = Mailbox()
        self._waiting: dict[str, Mailbox] = {}
        self._calls = 0
        self._interrupted = 0
        self._when_asked: Callable[[], None] | None = None
        # Questions about the state that came in the middle of a cell, and who answers them; none between cells.
        self._glances: list[Frame] = []
        self.glance: Callable[[Frame], bytes] | None = None

    def alone(self) -> RLock:
        """A context in which no other thread sends. A thread that was copied with this process waits until the copy has adopted
        its own socket and has said that it is ready, for before that there is no socket that it could send on."""
        return self._sending

    def send(self, frame: Frame) -> None:
        """Send one frame. What a signal handler raises meanwhile is raised once the frame is out."""
        self.transmit(encode(frame), [])

    def take_enclosed(self) -> int:
        """The descriptor that came with the last frame; -1 for none."""
        descriptor, self._enclosed = self._enclosed, -1
        return descriptor

    def transmit(self, data: bytes, sent: list[int]) -> None:
        """Send a frame's bytes, all of them or none. `sent` gets the count of each write, so that a caller who is interrupted
        by a signal handler can tell how far it came, and call again."""
        interruption: BaseException | None = None
        with self._sending:
            if not self.owned:
                raise RuntimeError("only the session's own process can talk to the host, and this one was forked from it")
            if self._midway and not sent:  # a signal handler, which interrupted this very thread in the middle of a frame
                raise RuntimeError("the host cannot be called from here")
            while sum(sent) < len(data):
                try:
                    sent.extend(map(write, (self.fd,), (memoryview(data)[sum(sent) :],)))
                except BaseException as error:
                    if _is_loss(error):
                        _lose()
                    if not sent:
                        raise
                    interruption = error
                self._midway = sum(sent) < len(data)
        if interruption is not None:
            raise interruption

    def next_request(self) -> Frame:
        """The host's next request to the loop."""
        return self._wait(self._requests)

    def poll_request(self) -> Frame | None:
        """The host's next request, if one has been read."""
        frames = self._requests.frames
        if not frames:
            return None
        frame = frames[-1]
        del frames[-1]
        return frame

    def when_asked(self, action: Callable[[], None] | None) -> None:
        """What to do when a thread that waits for something else has read a request."""
        self._when_asked = action

    def ask(self, frame: Frame) -> Frame:
        """Send a frame with a fresh `call` id, and wait for the host's answer to it. Threads may ask at the same time."""
        mailbox = Mailbox()
        call = self.expect(mailbox)
        try:
            self.send({**frame, "call": call})
            return self._wait(mailbox)
        finally:
            self.forget(call)

    def expect(self, mailbox: Mailbox) -> str:
        """A fresh call id, whose answer will be put into `mailbox` until it is forgotten."""
        with self._sending:
            self._calls += 1
            call = f"c{self._calls}"
        self._waiting[call] = mailbox
        return call

    def forget(self, call: str) -> None:
        self._waiting.pop(call, None)

    def pump(self) -> None:
        """Read what is there and deliver it: for event loops, which wait for `fd` themselves."""
        from select import select

        reading = self._reading
        if reading.acquire(False):
            try:
                self._deliver()
                if select([self.fd], [], [], 0)[0]:  # another thread may have been faster
                    self._receive()
            finally:
                reading.release()
            if self._glances:
                self._answer_glance()

    def is_interrupted(self, cell: int) -> bool:
        """Whether the host has said that it interrupts this cell."""
        self.pump()
        return self._interrupted == cell

    def adopt(self, fd: int) -> None:
        """Go on with another socket: for a process that was forked from a head and now becomes one."""
        self._let_go()
        self.fd = fd
        self.owned = True
        self._socket = socket(fileno=fd) if fd >= 0 else None
        self._generation += 1
        self._buffer.clear()
        self._midway = False
        self._reading = allocate_lock()
        self._requests = Mailbox()
        self._waiting.clear()
        self._glances.clear()
        self.glance = None

    def disown(self) -> None:
        """Let go of the socket: in every other process that was forked from the head."""
        if self.owned:
            self.owned = False
            self._sending = RLock()  # another thread of the parent may have held it
            self._let_go()
            try:
                close(self.fd)
            except OSError:
                pass

    def _let_go(self) -> None:
        """Without closing the descriptor: it is ours to close, not the object's."""
        if self._socket is not None:
            self._socket.detach()
            self._socket = None

    def _wait(self, mailbox: Mailbox) -> Frame:
        generation = self._generation
        while not mailbox.frames:
            if self._generation != generation:
                raise RuntimeError("the session was copied or went back while this thread waited for the host")
            held: list[bool] = []
            reading = self._reading
            try:
                held.extend(map(reading.acquire, (False,)))
                if held[0]:
                    if self._buffer:
                        self._deliver()
                    while not mailbox.frames and not self._glances and self._generation == generation:
                        self._receive()
            finally:
                if held and held[0]:
                    reading.release()
                    self._call_a_reader()
            if self._glances:
                self._answer_glance()
            elif not held[0]:
                mailbox.listen()
        frame = mailbox.frames[-1]
        del mailbox.frames[-1]
        return frame

    def _answer_glance(self) -> None:
        """Not while reading is locked: looking at a value runs its `__repr__`, which may call a tool."""
        answer = self.glance
        try:
            frame = self._glances.pop()
        except IndexError:  # another thread was faster
            return
        if answer is not None:
            self.transmit(answer(frame), [])

    def _call_a_reader(self) -> None:
        if self._waiting:
            for mailbox in list(self._waiting.values()):
                mailbox.ring()
            self._requests.ring()

    def _receive(self) -> None:
        """Read once, then deliver every frame that is whole."""
        generation = self._generation
        if self._socket is None:
            _lose()
        received: list[tuple[bytes, list[tuple[int, int, bytes]], int, Any]] = []
        try:
            received.extend(map(self._socket.recvmsg, (_CHUNK,), (_ROOM,), (MSG_CMSG_CLOEXEC,)))
        except BaseException as error:
            if _is_loss(error):
                with self._sending:  # in a copy, the socket of the original is closed until this one has adopted its own
                    pass
                if self._generation != generation:
                    return
                _lose()
            raise
        finally:
            if received:
                self._buffer += received[0][0]
        if received[0][1]:
            self._keep(received[0][1])
        if not received[0][0]:
            _lose()
        self._deliver()

    def _keep(self, messages: list[tuple[int, int, bytes]]) -> None:
        for level, kind, payload in messages:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                old, self._enclosed = self._enclosed, int.from_bytes(payload[:_DESCRIPTOR], "little")
                if old >= 0:
                    close(old)

    def _deliver(self) -> None:
        """Put every whole frame of the buffer where it is waited for."""
        buffer = self._buffer
        while len(buffer) >= 4:
            end = 4 + int.from_bytes(buffer[:4], "little")
            if len(buffer) < end:
                return
            try:
                frame = decode(buffer[4:end])
            except (ValueError, StopIteration):
                _lose()
            mailbox = self._requests
            operation = frame.get("op")
            if operation in _GLANCES and self.glance is not None:
                self._glances[:0], buffer[:end] = (frame,), b""
                continue
            if operation in _ANSWERS:
                mailbox = self._waiting.get(frame.get("call", "")) or Mailbox()  # or nobody's: the call was given up
            elif operation == "interrupt":
                self._interrupted = frame.get("cell", 0)
                mailbox = Mailbox()  # only to be noted
            elif operation == "paths":
                mailbox = Mailbox()
                extend(frame.get("paths") or [])
            mailbox.frames[:0], buffer[:end] = (frame,), b""
            mailbox.ring()
            if self._when_asked is not None and mailbox is self._requests:
                self._when_asked()


def _is_loss(error: BaseException) -> bool:
    # `TimeoutError("...")` from a user's alarm handler is an OSError too, but one without an errno.
    return isinstance(error, OSError) and error.errno is not None


def _lose() -> NoReturn:
    _exit(LOST)

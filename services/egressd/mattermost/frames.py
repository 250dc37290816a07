"""What one side says over WebSocket: frames in, whole messages out, each looked at before it goes on. No I/O.

Laws (tested): messages and control frames come out as they went in, but for what is masked in them, however the stream
is cut; memory is bounded by the longest message; what is no WebSocket (RFC 6455) comes out no further.
"""

from collections.abc import Callable

from wsproto.frame_protocol import CloseReason, Frame, FrameProtocol, Opcode, ParseFailed


class Garbage(Exception):
    """What came is no WebSocket, or a longer message than may be."""


Passed = Callable[[bytes], bytes]
"""A payload as it goes on; raises Garbage where it must not."""


class Messages:
    """The frames of one direction of a connection: a server's, or (masked, as RFC 6455 has it) a client's."""

    def __init__(self, message: Passed, control: Passed, most_bytes: int, *, of_client: bool = False) -> None:
        self._in = FrameProtocol(client=not of_client, extensions=[])
        self._out = FrameProtocol(client=of_client, extensions=[])
        self._passed = message
        self._control = control
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Take bytes of one side; the bytes for the other.

        Raises:
            Garbage: the connection can carry nothing more.

        """
        try:
            self._in.receive_bytes(data)
            return b"".join([self._taken(frame) for frame in self._in.received_frames()])
        except (ParseFailed, ValueError) as error:
            raise Garbage(str(error)) from None

    def _taken(self, frame: Frame) -> bytes:
        match frame.opcode, frame.payload:
            case Opcode.CLOSE, (int() as code, reason):
                shown = self._control(str(reason or "").encode()).decode()
                return bytes(self._out.close(None if code == CloseReason.NO_STATUS_RCVD else code, shown or None))
            case Opcode.PING, bytes() | bytearray() as payload:
                return bytes(self._out.ping(self._control(bytes(payload))))
            case Opcode.PONG, bytes() | bytearray() as payload:
                return bytes(self._out.pong(self._control(bytes(payload))))
            case Opcode.TEXT, str() as text:
                return self._message(text.encode(), frame)
            case Opcode.BINARY, bytes() | bytearray() as payload:
                return self._message(bytes(payload), frame)
            case _:
                raise Garbage("a frame of no known kind")

    def _message(self, part: bytes, frame: Frame) -> bytes:
        """The next part of a message; the message with its last."""
        self._parts.append(part)
        self._size_bytes += len(part)
        if self._size_bytes > self._most_bytes:
            raise Garbage("a message is too long")
        if not frame.message_finished:
            return b""
        whole = self._passed(b"".join(self._parts))
        self._parts, self._size_bytes = [], 0
        return bytes(self._out.send_data(whole.decode() if frame.opcode is Opcode.TEXT else whole, fin=True))

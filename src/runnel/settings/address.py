"""HOST:PORT, as people write it: `127.0.0.1:8080`, `[::1]:8080`, `:8080` for every interface."""

from dataclasses import dataclass

from runnel.errors import Refused


@dataclass(frozen=True, slots=True)
class Address:
    """A place to listen at. Port 0 lets the system choose a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            colon = ""
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise Refused(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:8080")
        return cls(host or "0.0.0.0", int(port))  # noqa: S104  whoever leaves the host out asks for every interface

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

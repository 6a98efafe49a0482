"""The address of a store, taken apart: `scheme://bucket/prefix?option=value`. Pure.

    memory://
    file:///var/lib/runnel/objects          file:objects is below the current directory
    s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1
    gs://bucket/prefix
    az://container/prefix?account=name

`unordered=true` is for servers that list names in an order of their own: all names are read, then sorted.
Every address takes `latency=` with the name of a profile. Secrets have no place in an address, because addresses are
printed, logged and compared; they come from the environment variables that the cloud's own tools read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import parse_qsl, unquote, urlsplit

from runnel.errors import Refused
from runnel.world.objects.names import check_beginning

OPTIONS: Mapping[str, frozenset[str]] = {
    "memory": frozenset({"latency", "bytes_max"}),
    "file": frozenset({"latency"}),
    "s3": frozenset({"latency", "endpoint", "region", "virtual_hosted", "anonymous", "unordered"}),
    "gs": frozenset({"latency", "endpoint", "anonymous"}),
    "az": frozenset({"latency", "endpoint", "account"}),
}
_SECRETS = ("secret", "key", "token", "password", "credential", "signature", "sas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a store is."""

    scheme: str
    bucket: str
    """The bucket or container; empty for memory and files."""
    path: str
    """The prefix in a bucket, or the directory."""
    options: Mapping[str, str]

    def flag(self, name: str) -> bool:
        value = self.options.get(name, "false")
        if value not in {"true", "false"}:
            raise Refused(f"option {name}={value!r} of an object store is neither true nor false")
        return value == "true"


def parse_address(url: str) -> Address:
    """Take an address apart, or `Refused` with what is wrong with it."""
    split = urlsplit(url)
    scheme = split.scheme
    if scheme not in OPTIONS:
        known = ", ".join(f"{name}://" for name in OPTIONS)
        raise Refused(f"object store address {_shown(url)!r} begins with none of {known}")
    if split.username is not None or split.password is not None:
        raise Refused(f"object store address {_shown(url)!r} holds a login; put credentials into the environment")
    options: dict[str, str] = {}
    for name, value in parse_qsl(split.query, keep_blank_values=True):
        if name not in OPTIONS[scheme]:
            raise _unknown(name, scheme)
        if name in options:
            raise Refused(f"option {name!r} of an object store is given twice")
        options[name] = value
    if split.fragment:
        raise Refused(f"object store address {_shown(url)!r} has a '#' part, which means nothing here")
    if scheme == "memory":
        if split.netloc or split.path.strip("/"):
            raise Refused("memory:// takes no path; every opening makes a new, empty store")
        return Address(scheme=scheme, bucket="", path="", options=options)
    if scheme == "file":
        if split.netloc not in {"", "localhost"}:
            raise Refused(
                f"object store address {_shown(url)!r} names a host; write file:///{split.netloc}{split.path}"
            )
        if not split.path:
            raise Refused("file:// needs a directory, as in file:///var/lib/runnel/objects")
        return Address(scheme=scheme, bucket="", path=unquote(split.path), options=options)
    if not split.netloc:
        raise Refused(f"object store address {_shown(url)!r} has no bucket, as in {scheme}://bucket/prefix")
    path = split.path.strip("/")
    check_beginning(f"{path}/" if path else "")
    return Address(scheme=scheme, bucket=split.netloc, path=path, options=options)


def _unknown(name: str, scheme: str) -> Refused:
    known = sorted(OPTIONS[scheme])
    if any(sign in name.lower() for sign in _SECRETS):
        return Refused(
            f"option {name!r} does not belong in an object store address; put credentials into the environment"
        )
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return Refused(f"unknown option {name!r} of a {scheme}:// object store; {hint}")


def _shown(url: str) -> str:
    """An address without what might be secret in it."""
    before, at, after = url.partition("?")[0].partition("#")[0].rpartition("@")
    return after if not at else f"{before.partition('://')[0]}://…@{after}"

"""One folder of the object store, in the words of each library that writes there. Pure but for the environment it is given.

    Place("file:///data/objects").url("tables/orders-1a2b")    where the folder is
    place.iceberg()   properties for pyiceberg's file system
    place.delta()     storage options for deltalake

Credentials are never among them: each library reads the environment as the cloud's own tools do.
"""

from pathlib import Path
from urllib.parse import quote

from runnel.errors import Refused
from runnel.world.objects.address import parse_address


class Place:
    """The store's address, taken apart once."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        if self._address.scheme == "memory":
            raise Refused(
                "tables need an object store that other processes can reach: set 'objects' to file:// or s3://"
            )

    def url(self, name: str) -> str:
        """The address of a folder or an object."""
        address = self._address
        if address.scheme == "file":
            return f"file://{quote(str(Path(address.path).absolute() / name))}"
        inside = f"{address.path}/{name}" if address.path else name
        if address.scheme == "az":
            return f"abfss://{address.bucket}@{address.options.get('account', '')}.dfs.core.windows.net/{inside}"
        return f"{address.scheme}://{address.bucket}/{inside}"

    def iceberg(self) -> dict[str, str]:
        address = self._address
        if address.scheme != "s3":
            return {}
        found = {"s3.region": address.options.get("region", "us-east-1")}
        if "endpoint" in address.options:
            found["s3.endpoint"] = address.options["endpoint"]
        return found

    def delta(self) -> dict[str, str]:
        address = self._address
        if address.scheme != "s3":
            return {}
        # Deltalake writes a log entry only where there is none, by S3's own If-None-Match.
        found = {"aws_region": address.options.get("region", "us-east-1"), "aws_conditional_put": "etag"}
        endpoint = address.options.get("endpoint", "")
        if endpoint:
            found |= {"aws_endpoint": endpoint, "aws_allow_http": str(endpoint.startswith("http://")).lower()}
        return found


def catalog_properties(catalog: str, place: Place) -> dict[str, str]:
    """What pyiceberg is told of a catalog; nothing for one that its own configuration knows by name."""
    scheme = catalog.partition("://")[0]
    if scheme in ("http", "https"):
        return {"type": "rest", "uri": catalog}
    if scheme.startswith(("sqlite", "postgresql")):
        return {"type": "sql", "uri": catalog, "warehouse": place.url("tables")}
    if "://" in catalog:
        raise Refused(f"table_catalog {catalog!r} begins with none of sqlite://, postgresql://, http://, https://")
    return {}

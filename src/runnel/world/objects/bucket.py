"""From an address to a client for its bucket: which options and environment variables count, cloud by cloud.

The environment holds what the cloud's own tools read (AWS_ACCESS_KEY_ID and its kin, GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_ACCOUNT_KEY and its kin); obstore reads those itself, and on a machine of the cloud it finds the
machine's role. An option in the address wins over the environment.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from runnel.errors import Refused
from runnel.world.chance import Chance
from runnel.world.objects.address import Address
from runnel.world.objects.bucket_tries import Policy
from runnel.world.objects.s3 import BucketObjects, load_obstore

_DEFAULT_REGION = "us-east-1"
_EXPRESS = "--x-s3"  # how the names of S3 Express buckets end
# Requests have time limits of their own; this one only makes sure that nothing lives for ever.
_LONGEST = timedelta(minutes=15)
_CONNECT = timedelta(seconds=3)


def open_bucket(
    address: Address, chance: Chance, environ: Mapping[str, str], policy: Policy | None = None
) -> BucketObjects:
    """The store in a bucket; nothing is sent yet."""
    load_obstore()
    try:
        bucket, endpoint, remedy = _CLOUDS[address.scheme](address, environ)
    except (ValueError, OSError) as error:
        raise Refused(f"cannot open {_where(address, '')}: {str(error).splitlines()[0]}") from None
    return BucketObjects(
        bucket,
        chance,
        where=_where(address, endpoint),
        remedy=remedy,
        policy=policy,
        ordered=not (address.bucket.endswith(_EXPRESS) or address.flag("unordered")),
    )


def _where(address: Address, endpoint: str) -> str:
    name = f"{address.scheme}://{address.bucket}" + (f"/{address.path}" if address.path else "")
    return f"{name} at {endpoint}" if endpoint else name


def _client(endpoint: str) -> Any:
    if endpoint and ("@" in endpoint or not endpoint.startswith(("http://", "https://"))):
        raise Refused("the endpoint of an object store is written http://host:port or https://host, without a login")
    return {
        "client_options": {
            "allow_http": endpoint.startswith("http://"),
            "timeout": _LONGEST,
            "connect_timeout": _CONNECT,
        },
        "retry_config": {"max_retries": 0},
    }


def _s3(address: Address, environ: Mapping[str, str]) -> tuple[Any, str, str]:
    from obstore.store import S3Store  # noqa: PLC0415  # an extra

    options = address.options
    endpoint = options.get("endpoint") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    region = options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION
    given: Any = {"region": region, "virtual_hosted_style_request": address.flag("virtual_hosted")}
    if endpoint:
        given["endpoint"] = endpoint
    if address.bucket.endswith(_EXPRESS):
        given["s3_express"] = True
    if address.flag("anonymous"):
        given["skip_signature"] = True
    for name, variable in (
        ("access_key_id", "AWS_ACCESS_KEY_ID"),
        ("secret_access_key", "AWS_SECRET_ACCESS_KEY"),
        ("session_token", "AWS_SESSION_TOKEN"),
    ):
        if variable in environ:
            given[name] = environ[variable]
    bucket = S3Store(address.bucket, prefix=address.path or None, config=given, **_client(endpoint))
    return bucket, endpoint or f"S3 in {region}", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def _gs(address: Address, environ: Mapping[str, str]) -> tuple[Any, str, str]:
    from obstore.store import GCSStore  # noqa: PLC0415  # an extra

    given: Any = {}
    endpoint = address.options.get("endpoint", "")
    if endpoint:
        given["base_url"] = endpoint
    if address.flag("anonymous"):
        given["skip_signature"] = True
    if "GOOGLE_APPLICATION_CREDENTIALS" in environ:
        given["application_credentials"] = environ["GOOGLE_APPLICATION_CREDENTIALS"]
    bucket = GCSStore(address.bucket, prefix=address.path or None, config=given, **_client(endpoint))
    return bucket, endpoint, "set GOOGLE_APPLICATION_CREDENTIALS to a key file"


def _az(address: Address, environ: Mapping[str, str]) -> tuple[Any, str, str]:
    from obstore.store import AzureStore  # noqa: PLC0415  # an extra

    given: Any = {}
    endpoint = address.options.get("endpoint", "")
    if endpoint:
        given["endpoint"] = endpoint
    account = address.options.get("account") or environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise Refused(f"no account for az://{address.bucket}; add ?account=NAME or set AZURE_STORAGE_ACCOUNT_NAME")
    given["account_name"] = account
    for name, variable in (("account_key", "AZURE_STORAGE_ACCOUNT_KEY"), ("sas_key", "AZURE_STORAGE_SAS_TOKEN")):
        if variable in environ:
            given[name] = environ[variable]
    bucket = AzureStore(address.bucket, prefix=address.path or None, config=given, **_client(endpoint))
    where = endpoint or f"account {account}"
    return bucket, where, "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"


_CLOUDS = {"s3": _s3, "gs": _gs, "az": _az}

"""Files that a Protobuf schema may import without registering them, as with Confluent's registry.

Those of `google/protobuf/` come with the compiler. These are known by their field numbers, which is all that counts.
"""

_META = "".join(
    f"extend google.protobuf.{kind}Options {{ Meta {name}_meta = 1088; }}\n"
    for kind, name in (
        ("File", "file"),
        ("Message", "message"),
        ("Field", "field"),
        ("Enum", "enum"),
        ("EnumValue", "enum_value"),
    )
)


def _messages(package: str, body: str, *imports: str) -> str:
    imported = "".join(f'import "{name}";\n' for name in imports)
    return f'syntax = "proto3";\npackage {package};\n{imported}{body}'


_MONTHS = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
]
_DAYS = ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"]


def _enum(name: str, zero: str, values: list[str]) -> str:
    return f"enum {name} {{ {' '.join(f'{value} = {n};' for n, value in enumerate([zero, *values]))} }}"


KNOWN = {
    "confluent/meta.proto": _messages(
        "confluent",
        "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }\n" + _META,
        "google/protobuf/descriptor.proto",
    ),
    "confluent/type/decimal.proto": _messages(
        "confluent.type", "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
    "google/type/date.proto": _messages(
        "google.type", "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"
    ),
    "google/type/dayofweek.proto": _messages("google.type", _enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED", _DAYS)),
    "google/type/decimal.proto": _messages("google.type", "message Decimal { string value = 1; }"),
    "google/type/fraction.proto": _messages(
        "google.type", "message Fraction { int64 numerator = 1; int64 denominator = 2; }"
    ),
    "google/type/interval.proto": _messages(
        "google.type",
        "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
        "google/protobuf/timestamp.proto",
    ),
    "google/type/latlng.proto": _messages(
        "google.type", "message LatLng { double latitude = 1; double longitude = 2; }"
    ),
    "google/type/money.proto": _messages(
        "google.type", "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"
    ),
    "google/type/month.proto": _messages("google.type", _enum("Month", "MONTH_UNSPECIFIED", _MONTHS)),
    "google/type/timeofday.proto": _messages(
        "google.type", "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    ),
}


def with_known(texts: dict[str, str]) -> dict[str, str]:
    """Some files, and beside them those that they import and everybody knows."""
    together = "\n".join(texts.values())
    return {name: text for name, text in KNOWN.items() if f'"{name}"' in together} | texts

"""What schemas mean: read, told apart, compared. Texts in, verdicts out; no registry, no waiting.

    kinds        the three kinds behind one word: read_schema(kind, text, references) -> Schema
    levels       which older versions a new one is compared with, and in which direction
    bounds       how large and how deep a schema may be
    avro         Avro schemas                            avro_compat      what one reads of what another wrote
    json_schema  JSON Schema                             json_compat      the same
    protobuf     .proto files, from text or descriptors  protobuf_compat  the same
    proto_text   a descriptor as .proto text         proto_known      files that everybody may import

protoxy and jsonschema-rs (`pip install 'runnel[registry]'`) are needed for Protobuf and JSON Schema, and come when they
are first asked for.
"""

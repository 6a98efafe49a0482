"""Streams become Iceberg and Delta tables, and come back as sealed batches.

What moves tables forward, from the outside in:

    child      the service beside a node, as a process of its own
    service    rounds once, or for as long as somebody wants; status says how far tables are
    lease      one planner at a time
    pipeline   a round: finish, plan, work, commit
    plan       which offsets become files next (pure)
    executor   one piece of work, wherever it is done; job/ hands it to Spark, whose Python processes come from forks
    commit     from written files to everything that points at them, exactly once; manifest is its journal
    catalogs/  Iceberg and Delta
    removal    what streams have lost goes out of tables, and out of the store
    truth      what all of this needs of a cluster

What the work is made of:

    files/     slices of write-ahead objects <-> Parquet files
    values     values of any schema <-> columns, by avro, json_values and protobuf; shapes are schemas as columns
    schemas    schemas by their ids, asked of a registry
    records    runs of sealed batches -> Arrow columns; what cannot be opened is set aside, sealed
    batches    Arrow columns -> sealed batches
    compiled   the C helper where it was built, else the plain version; *_plain are reference and fallback

pyarrow is needed here (`pip install 'runnel[table]'`), and only here.
"""

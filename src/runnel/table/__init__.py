"""From sealed batches to columns and files, and back.

    compiled       the C helper where it was built, else the plain version
    records        runs of sealed batches -> Arrow columns; what cannot be opened is set aside, sealed
    batches        Arrow columns -> sealed batches
    records_plain  record boundaries in plain Python: the reference, and the fallback

pyarrow is needed here (`pip install 'runnel[table]'`), and only here.
"""

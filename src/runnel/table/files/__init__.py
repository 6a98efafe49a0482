"""Slices of write-ahead objects become Parquet files, and these become sealed batches again. No Spark in here.

    facts        what a piece of work is told and what it gives back: files, swaps, what it wants to know
    columns      the table's columns: stable ids, the union of all schemas, what a value's columns are called in it
    partitions   which file a row belongs to: by time, by a field
    write        Work -> Parquet files, their trails, and the facts that commits need
    chunks       rows of one chunk -> columns for each file, and what must be kept beside them
    statistics   Parquet footers -> what Iceberg's data files and Delta's add actions say of columns
    trail        the object that leads from offsets back to rows; the ledger points at it
    restore      trail + Parquet -> sealed batches, as consumers get them

**Groups.** Work writes one *group* of files at a time: Parquet files whose rows share a stretch of some streams, and
one *trail*. Rows of one offset range may lie in several files of their group, because a file holds values of one
schema and of one partition of the table. The trail says which rows lie where; extents point at the trail, never at
Parquet files. So a group comes and goes as a whole, and files can be partitioned by anything.

**Chunks.** A group is made of chunks: some megabytes of one stream's rows, in order. A chunk ends a row group in every
file that it has rows in, so that a chunk can be read without the others. A trail has a list of chunks; an extent's
`place` is the number of its first chunk.

**What is kept.** Rows that cannot be read by their schema are no part of the table; values that come out differently
when they are encoded again are. Both lie, byte by byte, in a *kept* object beside the trail, and so do batches that
stay sealed (control batches, aborted ones, poisoned ones). Without any of these there is no kept object.
"""

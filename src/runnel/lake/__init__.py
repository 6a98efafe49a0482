"""Streams as tables, for those who read from outside: Spark, DuckDB, a prompt.

    options   what a reader asks for, in the words of Spark's Kafka source
    places    a cluster seen from outside: its topics, where their rows lie, an exact cut through all partitions
    scan      what travels to whoever reads: pieces of a topic, its columns, where schemas are known
    rows      a piece -> Arrow record batches, out of write-ahead objects and Parquet alike
    triggers  how far a stream goes with its next trigger
    source    Spark's data source: spark.read.format("runnel"), batch and streaming
    newest    the last rows of a topic, or the first
    sql       topics as tables of a query, by DuckDB

A reader talks to the ledger for a cut and to the object store for bytes; no broker is asked, so reading costs them
nothing. What was acknowledged before the cut is in it, wherever it lies by then.
"""

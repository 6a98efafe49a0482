"""Where tables are known: each of these makes a commit's files part of a table, exactly once.

seam       TableFormat: what a commit may rely on
places     a folder of the object store, as pyiceberg and deltalake name and reach it
iceberg    any catalog that pyiceberg speaks
delta      a log beside the same files
"""

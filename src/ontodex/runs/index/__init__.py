"""Index many documents: `ontodex index RUN IN... OUT`.

job        the whole job                     inputs      files, folders, patterns, lists, URLs
parts      make the parts that are missing   resume      the files of a folder of parts, its ledger
shard      index one input, in a worker      admission   which documents are indexed, in blocks
workers    processes on this machine         block       compute the rows of one block
ray_engine actors on a Ray cluster           table       write rows as CSV, TSV, JSONL or Parquet
merge      the current records of all parts as one table
"""

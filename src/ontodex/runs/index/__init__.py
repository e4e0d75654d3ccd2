"""Index many documents into a table: `ontodex index RUN IN OUT`.

job        the whole job                     admission   which documents are indexed, in blocks
resume     continue a killed job             block       compute the rows of one block
workers    processes on this machine         ray_engine  tasks on a Ray cluster
table      write the finished blocks as CSV, TSV, JSON lines or Parquet
"""

"""The records of a broker on disk, in Kafka's own file formats.

From the bottom up: `checkpoints` are the small text files; `segment` is one file of batches with
its indexes; `producers` knows who wrote; `append` prepares what is to be written; `log` is one
replica; `compaction` rewrites logs; `manager` has all of them over the data folders. `dump` shows
files to people. The decisions are in docs/adr/0006-storage.md.
"""

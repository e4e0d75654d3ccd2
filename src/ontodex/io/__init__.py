"""Files and machine, used by every other package.

files: atomic writes, locks, hashes, compressed input. xml: untrusted XML as a stream. tensors:
arrays of a run folder. tables: text, Markdown and HTML tables. progress: bars. device: the machine.
"""

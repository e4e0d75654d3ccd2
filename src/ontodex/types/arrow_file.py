"""Read the Arrow file of a corpus without copies, and refuse one whose buffers are compressed.

ontodex never compresses them: the file is mapped into memory. A hostile file of a few kilobytes
could otherwise unpack to gigabytes.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa

_MAGIC = b"ARROW1\0\0"
_CURRENT = 4  # version of the metadata; older ones could state a compression in other places
# Places of fields in the tables of Arrow's metadata (FlatBuffers).
_HEADER, _COMPRESSION = 2, 3


def read_arrow_file(path: Path) -> pa.Table:
    """Return the table of an Arrow file, mapped into memory; a ValueError says what is wrong."""
    with pa.memory_map(str(path)) as source:
        content = source.read_buffer()
    if content.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise ValueError("docs.arrow is not an Arrow file")
    # Behind the magic bytes the file is a stream of messages; its footer repeats their places.
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(content.slice(len(_MAGIC))))
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError("docs.arrow has no schema")
    schema = pa.ipc.read_schema(first)
    batches = []
    for message in messages:
        if message.type != "record batch":
            raise ValueError(f"docs.arrow has a message of the type {message.type}")
        if message.metadata_version != _CURRENT or _is_compressed(message.metadata):
            raise ValueError("docs.arrow is compressed; ontodex never compresses it")
        batches.append(pa.ipc.read_record_batch(message, schema))
    return pa.Table.from_batches(batches, schema=schema)


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Return whether the metadata of a record batch names a compression."""
    data = metadata.to_pybytes()
    try:
        (root,) = struct.unpack_from("<I", data)
        header = _find_field(data, root, _HEADER)
        if header is None:
            raise ValueError("docs.arrow has a message without a header")
        (offset,) = struct.unpack_from("<I", data, header)
        return _find_field(data, header + offset, _COMPRESSION) is not None
    except struct.error as error:
        raise ValueError(f"docs.arrow has damaged metadata ({error})") from error


def _find_field(data: bytes, table: int, field: int) -> int | None:
    """Return where a field of a FlatBuffers table is; None if the table does not have it."""
    (to_offsets,) = struct.unpack_from("<i", data, table)
    offsets = table - to_offsets
    (size,) = struct.unpack_from("<H", data, offsets)
    place = 4 + 2 * field
    if place >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, offsets + place)
    return table + offset if offset else None

"""python-snappy's two functions, by cramjam: kafka-python looks for no library that is here."""

import cramjam


def compress(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def decompress(data: bytes) -> bytes:
    return bytes(cramjam.snappy.decompress_raw(data))

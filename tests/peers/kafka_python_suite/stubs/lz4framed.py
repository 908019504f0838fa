"""py-lz4framed's two functions, by cramjam: kafka-python looks for no library that is here."""

import cramjam


def compress(data: bytes) -> bytes:
    # Kafka's reader refuses frames whose blocks depend on each other.
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def decompress(data: bytes) -> bytes:
    return bytes(cramjam.lz4.decompress(data))

"""Bodies that producers compress and consumers read (protocol sections 1.11 and 4.3)."""

import zlib
from collections.abc import Callable

from brokerd.remoting.errors import BodyError
from brokerd.remoting.message.names import SysFlag

# A 4 MiB message of zeros inflates a thousandfold; no producer sends such a body.
BODY_BYTES_MAX = 64 * 1024 * 1024
ZSTD_PIECE_BYTES = 1024  # a block of 4 bytes can stand for 128 KiB: no piece gives more than 32 MiB


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    data = inflater.decompress(body, BODY_BYTES_MAX)
    if not inflater.eof:
        raise BodyError(f"zlib body is cut short or larger than {BODY_BYTES_MAX} bytes")
    return data


def _decompress_lz4(body: bytes) -> bytes:
    import lz4.frame  # only clients meet such bodies; the broker's process stays smaller without

    inflater = lz4.frame.LZ4FrameDecompressor()
    data = bytes(inflater.decompress(body, BODY_BYTES_MAX))
    if not inflater.eof:
        raise BodyError(f"LZ4 body is cut short or larger than {BODY_BYTES_MAX} bytes")
    return data


def _decompress_zstd(body: bytes) -> bytes:
    import zstandard  # as above

    inflater = zstandard.ZstdDecompressor().decompressobj()
    pieces, size = [], 0
    for start in range(0, len(body), ZSTD_PIECE_BYTES):
        pieces.append(inflater.decompress(body[start : start + ZSTD_PIECE_BYTES]))
        size += len(pieces[-1])
        if size > BODY_BYTES_MAX or inflater.eof:
            break
    if not inflater.eof or size > BODY_BYTES_MAX:
        raise BodyError(f"ZSTD body is cut short or larger than {BODY_BYTES_MAX} bytes")
    return b"".join(pieces)


DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    # Producers before 5.0 set no type.
    0: _inflate,
    SysFlag.COMPRESSION_ZLIB: _inflate,
    SysFlag.COMPRESSION_LZ4: _decompress_lz4,
    SysFlag.COMPRESSION_ZSTD: _decompress_zstd,
}


def decompress(body: bytes, compression_type: int) -> bytes:
    """Return the original body. `compression_type` is bits 8 to 10 of the sysFlag. Raises BodyError."""
    known = DECOMPRESS.get(compression_type)
    if known is None:
        raise BodyError(f"unknown compression type {compression_type:#x}")
    try:
        return known(body)
    except BodyError:
        raise
    except (zlib.error, RuntimeError, EOFError, ValueError) as error:
        raise BodyError(f"body does not decompress: {error}") from None
    except Exception as error:  # noqa: BLE001 - zstandard's ZstdError derives from Exception alone
        if type(error).__name__ != "ZstdError":
            raise
        raise BodyError(f"body does not decompress: {error}") from None


def _compress_lz4(body: bytes, level: int) -> bytes:
    import lz4.frame  # as above

    # lz4-java knows no levels, and reads no frames whose blocks depend on each other.
    return bytes(lz4.frame.compress(body, block_linked=False))


def _compress_zstd(body: bytes, level: int) -> bytes:
    import zstandard  # as above

    return zstandard.ZstdCompressor(level=level).compress(body)


COMPRESS: dict[int, Callable[[bytes, int], bytes]] = {
    SysFlag.COMPRESSION_ZLIB: zlib.compress,
    SysFlag.COMPRESSION_LZ4: _compress_lz4,
    SysFlag.COMPRESSION_ZSTD: _compress_zstd,
}


def compress(body: bytes, compression_type: int, level: int) -> bytes:
    """Return the body as a producer sends it. `compression_type` as for `decompress`; LZ4 ignores the level."""
    return COMPRESS[compression_type](body, level)

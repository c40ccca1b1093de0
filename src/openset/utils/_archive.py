"""Members of zip archives from strangers: never larger in memory than they state."""

from __future__ import annotations

from io import BytesIO
from math import prod
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from numpy.lib import format as npy

_KINDS = "biufcUSmM"  # of dtypes: no objects and no records


def read_member(archive: ZipFile, name: str, size: int | None = None) -> bytes:
    """Read a member of an archive, or its beginning.

    Parameters
    ----------
    archive : ZipFile
    name : str
    size : int, default=None
        Number of bytes; None reads all.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If the member is shorter than it states, or of a format whose size cannot be limited.
    """
    info = archive.getinfo(name)
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed by a method that is not supported")
    stated = info.file_size if size is None else min(size, info.file_size)
    with archive.open(name) as file:
        data = file.read(stated)
    if len(data) != stated:
        raise ValueError(f"{name} is cut short")
    return data


def stored_array_size(archive: ZipFile, name: str) -> int:
    """Return the number of bytes of an array in an archive; at least one item along each axis.

    Parameters
    ----------
    archive : ZipFile
    name : str

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the member is no array of numbers or texts, or its header states another size.
    """
    start = BytesIO(read_member(archive, name, 2**14))
    version = npy.read_magic(start)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"{name} is an array of format {version}")
    shape, _, dtype = read[version](start)
    if dtype.kind not in _KINDS or dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise ValueError(f"{name} is an array of {dtype} and shape {shape}")
    stated = start.tell() + prod(shape) * dtype.itemsize
    size = archive.getinfo(name).file_size
    if size != stated:
        raise ValueError(f"{name} has {size} bytes, but its header states {stated}")
    return prod(max(n, 1) for n in shape) * dtype.itemsize

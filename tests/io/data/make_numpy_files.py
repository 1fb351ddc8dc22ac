"""Writes the .npy and .npz files of tests/io/npy_test.cpp, and the fuzzers' first inputs, by NumPy itself.

Run with numpy 2 and ml_dtypes: python3 tests/io/data/make_numpy_files.py
"""

import io
import pathlib
import shutil

import ml_dtypes
import numpy as np

here = pathlib.Path(__file__).parent
corpus = here.parents[2] / "fuzz" / "corpus"
names = {
    "f64": np.float64, "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}
# Element k of every array is k - 2, modulo what the dtype holds; of bool, its lowest bit.
arrays = {name: (np.arange(6) - 2).reshape(2, 3).astype(dtype) for name, dtype in names.items() if name != "bool"}
arrays["bool"] = (np.arange(6) % 2 == 1).reshape(2, 3)
np.savez(here / "all.npz", **arrays)
np.savez_compressed(here / "compressed.npz", **arrays, long=np.zeros(5000, np.float32))
np.save(here / "fortran.npy", np.asfortranarray((np.arange(24) - 2).reshape(2, 3, 4).astype(np.float32)))
np.save(here / "big_endian.npy", (np.arange(6) - 2).reshape(2, 3).astype(">i4"))
np.save(here / "scalar.npy", np.float64(-2))
np.save(here / "empty.npy", np.zeros((0, 3), np.float32))
np.save(here / "complex.npy", np.zeros(2, np.complex64))
np.save(here / "structured.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
for version in [(2, 0), (3, 0)]:
    with open(here / f"version{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, arrays["f32"], version=version)

for name in ["fortran", "big_endian", "scalar", "empty", "structured", "version2", "version3"]:
    shutil.copy(here / f"{name}.npy", corpus / "npy" / f"{name}.npy")
for name in ["f32", "bf16", "bool"]:
    np.save(corpus / "npy" / f"{name}.npy", arrays[name])
few = {name: arrays[name] for name in ["f32", "bool"]}
np.savez(corpus / "npz" / "stored.npz", **few)
np.savez_compressed(corpus / "npz" / "deflated.npz", **few)
np.savez(corpus / "npz" / "none.npz")

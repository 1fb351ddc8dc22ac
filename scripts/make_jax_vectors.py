#!/usr/bin/env python3
"""Writes tests/numerics/data/jax_random.txt: keys, bits and uniforms of JAX, the oracle of numerics.md section 8.

Needs: pip install jax==0.10.2 jaxlib==0.10.2 (CPU). One case a line: name, arguments, '=', values, all integers but for
the bounds of uniforms; floats are given as their bits.
"""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
assert jax.config.jax_threefry_partitionable

SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**40 + 5, 2**63 - 1]
UNSIGNED = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32, 64: jnp.uint64}
FLOATS = {"f64": (jnp.float64, np.uint64), "f32": (jnp.float32, np.uint32), "bf16": (jnp.bfloat16, np.uint16), "f16": (jnp.float16, np.uint16)}
BOUNDS = [("0x0p+0", "0x1p+0"), ("-0x1p+0", "0x1p+0"), ("0x1.99999ap-4", "0x1.666666p-1"), ("-0x1.8p+1", "0x1.0624dep-10"), ("0x1.4p+2", "0x1.6p+2"), ("0x1p-100", "0x1.8p+13")]  # XLA flushes subnormals, Eadem does not: none here


def main():
    lines = []
    add = lambda *parts: lines.append(" ".join(str(p) for p in parts))
    for seed in SEEDS:
        key = jax.random.PRNGKey(seed)
        add("key", seed, "=", *np.array(key))
        add("split", seed, "=", *np.array(jax.random.split(key, 5)).ravel())
        for data in (0, 1, 77, 2**31, 2**32 - 1):
            add("fold_in", seed, data, "=", *np.array(jax.random.fold_in(key, data)))
        for width, dtype in UNSIGNED.items():
            add("bits", seed, width, "=", *np.array(jax.random.bits(key, (11,), dtype)))
    for seed in (42, 2**40 + 5):
        key = jax.random.PRNGKey(seed)
        add("shaped_bits", seed, "=", *np.array(jax.random.bits(key, (3, 2, 2), jnp.uint32)).ravel())
        for name, (dtype, bits) in FLOATS.items():
            for low, high in BOUNDS:
                bound = lambda text: jnp.asarray(float.fromhex(text), dtype)
                values = jax.random.uniform(key, (40,), dtype, bound(low), bound(high))
                add("uniform", seed, name, low, high, "=", *np.array(values).view(bits))
    path = pathlib.Path(__file__).parent.parent / "tests/numerics/data/jax_random.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


main()

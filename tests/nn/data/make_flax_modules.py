"""Writes flax_modules.json: Flax's modules as it draws them, and their outputs computed in f64 from those parameters.

Run with jax 0.10.2 and flax 0.12.8: python3 tests/nn/data/make_flax_modules.py
"""

import json
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from flax import nnx

F64 = jnp.float64


def numbers(array):
    return {"shape": list(array.shape), "data": [float(f"{v:.17g}") for v in np.asarray(array, np.float64).ravel()]}


def normal(seed, shape):
    return jax.random.normal(jax.random.PRNGKey(seed), shape, jnp.float32)


def state_of(module, kinds):
    flat = nnx.to_flat_state(nnx.state(module, kinds))
    return {"/".join(map(str, path)): numbers(value[...]) for path, value in flat}


report = {"jax": jax.__version__, "cases": {}}


def case(name, module, x, call=None):
    """Stores parameters before the call, and what the call gives."""
    entry = {"parameters": state_of(module, nnx.Param), "x": numbers(x)}
    y = (call or (lambda m, v: m(v)))(module, x.astype(F64))
    entry["y"] = [numbers(each) for each in jax.tree.leaves(y)]
    entry["state"] = state_of(module, nnx.BatchStat)
    report["cases"][name] = entry


def rngs():
    return nnx.Rngs(0)


normal_bias = nnx.initializers.normal(0.5)
bias = {"bias_init": normal_bias}
line, plane = normal(1, (2, 9, 4)), normal(2, (1, 2, 5, 6, 4))
case("conv1d", nnx.Conv(4, 6, 3, 2, dtype=F64, rngs=rngs(), **bias), line)
case("conv_causal", nnx.Conv(4, 6, 3, kernel_dilation=2, padding="CAUSAL", dtype=F64, rngs=rngs(), **bias), line)
case("conv_groups", nnx.Conv(4, 6, (3, 2), (1, 2), padding="VALID", kernel_dilation=(2, 1), feature_group_count=2, dtype=F64,
                             rngs=rngs(), **bias), plane)
case("conv_circular", nnx.Conv(4, 3, (3, 4), padding="CIRCULAR", dtype=F64, rngs=rngs(), **bias), plane)
case("conv_reflect", nnx.Conv(4, 3, (4, 3), padding="REFLECT", use_bias=False, dtype=F64, rngs=rngs()), plane)
case("conv_given", nnx.Conv(4, 3, (3, 3), padding=((2, 0), (1, 3)), input_dilation=(2, 1), dtype=F64, rngs=rngs(), **bias), plane)
case("conv_transpose", nnx.ConvTranspose(4, 3, (3, 4), (2, 3), dtype=F64, rngs=rngs(), **bias), plane)
case("conv_transpose_valid", nnx.ConvTranspose(4, 3, (2, 5), (3, 2), padding="VALID", kernel_dilation=(2, 1), dtype=F64,
                                               rngs=rngs(), **bias), plane)
case("conv_transpose_kernel", nnx.ConvTranspose(4, 3, (3, 3), (2, 2), transpose_kernel=True, dtype=F64, rngs=rngs(), **bias), plane)
case("conv_transpose_circular", nnx.ConvTranspose(4, 3, (5, 4), (2, 3), padding="CIRCULAR", dtype=F64, rngs=rngs(), **bias), plane)
case("einsum", nnx.Einsum("...d,dnh->...nh", (4, 3, 5), (3, 5), dtype=F64, rngs=rngs(), **bias), line)
scales = {"scale_init": normal_bias, "bias_init": normal_bias}
case("group_norm", nnx.GroupNorm(4, num_groups=2, dtype=F64, use_fast_variance=False, rngs=rngs(), **scales), plane[0])
case("batch_norm", nnx.BatchNorm(4, momentum=0.9, dtype=F64, use_fast_variance=False, rngs=rngs(), **scales), line)
case("batch_norm_running", nnx.BatchNorm(4, use_running_average=True, dtype=F64, rngs=rngs(), **scales), line)
case("lora", nnx.LoRA(4, 2, 3, b_initializer=normal_bias, dtype=F64, rngs=rngs()), line)
case("lora_linear", nnx.LoRALinear(4, 3, lora_rank=2, lora_dtype=F64, b_initializer=normal_bias, dtype=F64, rngs=rngs(), **bias), line)


def steps(cell, x):
    """Three steps along axis 1 from zero."""
    carry = cell.initialize_carry((x.shape[0], x.shape[2]), rngs())
    carry = jax.tree.map(lambda each: each.astype(F64), carry)
    for t in range(3):
        carry, _ = cell(carry, x[:, t])
    return carry


# LSTMCell's default draws its recurrent kernels in f64 where x64 is enabled, as it is here; without, in f32, as the others.
lstm = {"recurrent_kernel_init": nnx.initializers.orthogonal()}
for name, cell in [("lstm", nnx.LSTMCell), ("optimized_lstm", nnx.OptimizedLSTMCell), ("gru", nnx.GRUCell)]:
    case(name, cell(4, 5, dtype=F64, rngs=rngs(), **bias, **(lstm if name == "lstm" else {})), line, steps)


def decode(module, x):
    module.init_cache(x.shape, F64)
    return jnp.concatenate([module(x[:, t : t + 1]) for t in range(x.shape[1])], 1)


case("decode", nnx.MultiHeadAttention(2, 4, decode=True, normalize_qk=True, dtype=F64, rngs=rngs(), **bias), line, decode)
path = pathlib.Path(__file__).parent / "flax_modules.json"
path.write_text(json.dumps(report) + "\n")

"""Writes flax_4629.json: the network of flax issue 4629 as Flax itself draws and runs it.

Run with jax 0.10.2 and flax 0.12.8: python3 tests/nn/data/make_flax_4629.py
"""

import json
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from flax import nnx


class Layer(nnx.Module):
    def __init__(self, features, rngs):
        self.attention = nnx.MultiHeadAttention(num_heads=8, in_features=features, decode=False, rngs=rngs)
        self.linear = nnx.Linear(features, features, rngs=rngs)

    def __call__(self, x):
        return self.linear(self.attention(x))


def numbers(array):
    return {"shape": list(array.shape), "data": [float(f"{v:.17g}") for v in np.asarray(array, np.float64).ravel()]}


keys = jax.random.split(jax.random.PRNGKey(0), 2)
layers = nnx.vmap(lambda key: Layer(16, nnx.Rngs(key)))(keys)
rngs = nnx.Rngs(keys[0])
x = jax.random.normal(jax.random.PRNGKey(0), (2, 2, 16), jnp.float32)
parameters = {"/".join(path): numbers(value[...]) for path, value in nnx.to_flat_state(nnx.state(layers, nnx.Param))}
def layer_in_f64(i, x):
    """The layer's formula in NumPy: Flax's own attention computes its scores in f32, whatever the dtype."""
    p = {path: np.asarray(value["data"]).reshape(value["shape"])[i] for path, value in parameters.items()}
    q, k, v = (
        np.einsum("blf,fhd->bhld", x, p[f"attention/{name}/kernel"]) + p[f"attention/{name}/bias"][:, None]
        for name in ("query", "key", "value")
    )
    weights = np.exp(np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1]))
    weights /= weights.sum(-1, keepdims=True)
    heads = np.einsum("bhqk,bhkd->bqhd", weights, v)
    attended = np.einsum("bqhd,hdf->bqf", heads, p["attention/out/kernel"]) + p["attention/out/bias"]
    return attended @ p["linear/kernel"] + p["linear/bias"]


y = np.asarray(x, np.float64)
for i in range(2):
    y = layer_in_f64(i, y)
report = {
    "jax": jax.__version__,
    "keys": np.asarray(keys).ravel().tolist(),
    "draws": [np.asarray(jax.random.key_data(rngs.params())).tolist() for _ in range(10)],
    "x": numbers(x),
    "parameters": parameters,
    "y": numbers(y),
}
path = pathlib.Path(__file__).parent / "flax_4629.json"
path.write_text(json.dumps(report) + "\n")

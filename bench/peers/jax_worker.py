"""JAX's side of the transforms: answers a JSON request a line with seconds, as Eadem's worker does.

Its own process, since XLA takes its number of threads from the CPUs that it may run on when it starts."""

import json
import math
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])

import jax  # noqa: E402  (after the affinity)
import jax.numpy as jnp  # noqa: E402

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def uniform(seed, dtype, *shape):
    return jax.random.uniform(jax.random.PRNGKey(seed), shape, jnp.float32, -1, 1).astype(dtype)


def fused(dtype):
    x = uniform(1, dtype, 4096, 4096)
    f = jax.jit(lambda a: jax.nn.gelu(1.5 * a + 2, approximate=False) * jax.nn.sigmoid(a))
    return lambda: f(x).block_until_ready()


def layers(dtype):
    depth, width, rows = 48, 256, 32
    stacked = (uniform(1, dtype, depth, width, width) * 0.05, uniform(2, dtype, depth, width))
    x = uniform(3, dtype, rows, width)

    def loss(weights, h):
        def layer(h, wb):
            return h + jnp.tanh(h @ wb[0].T + wb[1]), None
        return jax.lax.scan(layer, h, weights)[0].sum()

    step = jax.jit(jax.value_and_grad(loss))
    return lambda: jax.block_until_ready(step(stacked, x))


def block(dtype):
    width, inner, heads = 512, 2048, 8
    shapes = [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,),
              (inner, width), (inner,), (width, inner), (width,)]
    weights = [uniform(i, dtype, *s) * (0.04 if len(s) == 2 else 1) for i, s in enumerate(shapes)]
    x = uniform(99, dtype, 4, 256, width)

    def norm(h, gain, shift):
        h32 = h.astype(jnp.float32)
        centred = h32 - h32.mean(-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return (scaled * gain + shift).astype(h.dtype)

    def loss(inputs):
        (g1, s1, qkv, qkv_b, out, out_b, g2, s2, up, up_b, down, down_b), h = inputs
        joined = (norm(h, g1, s1) @ qkv.T + qkv_b).reshape(*h.shape[:2], 3, heads, width // heads)
        mixed = jax.nn.dot_product_attention(joined[:, :, 0], joined[:, :, 1], joined[:, :, 2])
        h = h + mixed.reshape(h.shape) @ out.T + out_b
        y = jax.nn.gelu(norm(h, g2, s2) @ up.T + up_b, approximate=False)
        return (h + y @ down.T + down_b).sum()

    step = jax.jit(jax.value_and_grad(loss))
    return lambda: jax.block_until_ready(step((weights, x)))


WORKS = {"fused": fused, "layers": layers, "block": block}


def main():
    kept = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["work"], request["dtype"]
        if key not in kept:
            kept.clear()
            kept[key] = WORKS[key[0]](DTYPES[key[1]])
            kept[key]()  # compiles
        best, total, count = math.inf, 0.0, 0
        while count < 3 or total < request["seconds"]:
            start = time.perf_counter()
            kept[key]()
            elapsed = time.perf_counter() - start
            best, total, count = min(best, elapsed), total + elapsed, count + 1
        print(json.dumps({"seconds": best}), flush=True)


main()

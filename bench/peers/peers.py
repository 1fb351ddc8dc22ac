"""Times Eadem and a peer by turns and prints the ratios (above 1: Eadem is faster)."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROUNDS = 5

GEMM_SHAPES = [
    (64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (2048, 2048, 2048),
    (1, 4096, 4096), (4, 4096, 4096), (16, 4096, 4096), (64, 4096, 4096),
    (512, 576, 1536), (4096, 64, 64), (64, 64, 16384), (127, 129, 131),
]
OPS = ["exp", "tanh", "gelu", "silu", "add", "softmax", "layer_norm", "sum0", "sum1"]

# Batch, extent, channels, outputs, taps, stride, groups.
CONVOLUTIONS = [
    (4, 56, 64, 64, 3, 1, 1), (4, 14, 256, 256, 3, 1, 1), (4, 28, 128, 512, 1, 1, 1), (4, 56, 128, 128, 3, 1, 128),
    (4, 56, 64, 64, 3, 2, 1), (4, 112, 3, 64, 7, 2, 1),
]


class Worker:
    """A worker process, asked over a pipe."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench/peers/run: {request}: the worker ended")
        reply = json.loads(line)
        if "error" in reply:
            sys.exit(f"bench/peers/run: {request}: {reply['error']}")
        return reply

    def seconds(self, budget, **request):
        return self.ask(seconds=budget, **request)["seconds"]


def eadem_worker():
    worker = ROOT / "build/bin/eadem_bench_worker"
    if not worker.exists():
        sys.exit(f"bench/peers/run: {worker} is missing; run make bench")
    return Worker([worker])


def jax_worker(threads):
    return Worker([sys.executable, HERE / "jax_worker.py", str(threads)])


def best_of(work, budget):
    best, total, count = math.inf, 0.0, 0
    while count < 3 or total < budget:
        start = time.perf_counter()
        work()
        elapsed = time.perf_counter() - start
        best, total, count = min(best, elapsed), total + elapsed, count + 1
    return best


class Table:
    def __init__(self, threads):
        self.threads, self.rows, self.notes = threads, [], []

    def measure(self, name, dtype, peer_name, eadem, peer, unit="s", amount=None, budget=0.15):
        """Runs both by turns; amount turns seconds into a rate."""
        return self.measure_timed(name, dtype, peer_name, eadem, lambda budget: best_of(peer, budget), unit, amount,
                                  budget)

    def measure_timed(self, name, dtype, peer_name, eadem, peer, unit="s", amount=None, budget=0.15):
        """As measure, for a peer that times itself."""
        eadem(budget), peer(budget / 3)  # warm both up
        return self.add(name, dtype, peer_name, [(eadem(budget), peer(budget)) for _ in range(ROUNDS)], unit, amount)

    def add(self, name, dtype, peer_name, pairs, unit, amount=None):
        """A row of (Eadem's, the peer's) seconds a round."""
        ratios = sorted(theirs / ours for ours, theirs in pairs)
        ours, theirs = min(p[0] for p in pairs), min(p[1] for p in pairs)
        value = (lambda s: s) if amount is None else (lambda s: amount / s)
        row = dict(work=name, dtype=dtype, threads=self.threads, eadem=value(ours), peer=value(theirs),
                   peer_name=peer_name, unit=unit, ratio=ratios[len(ratios) // 2], ratio_min=ratios[0],
                   ratio_max=ratios[-1])
        self.rows.append(row)
        print(f"{name:<34} {dtype:<5} {self.threads}  {row['eadem']:>10.4g} {row['peer']:>10.4g} {unit:<9} "
              f"{peer_name:<10} {row['ratio']:5.2f} ({row['ratio_min']:.2f}-{row['ratio_max']:.2f})", flush=True)
        return row

    def mean(self, name, rows):
        value = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
        self.note(f"{name}, {rows[0]['dtype']}, {self.threads} threads: geometric mean of {len(rows)} shapes {value:.2f}, "
                  f"least {min(r['ratio'] for r in rows):.2f}")

    def note(self, text):
        self.notes.append(text)
        print("  " + text, flush=True)


def torch_dtype(torch, dtype):
    return {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]


def uniform(torch, dtype, *shape):
    return (torch.rand(*shape) * 2 - 1).to(torch_dtype(torch, dtype))


def gemm(eadem, table):
    import torch
    torch.set_num_threads(table.threads)
    for dtype in ("f32", "bf16"):
        for packed in (False, True):
            rows = []
            for m, n, k in GEMM_SHAPES:
                a = uniform(torch, dtype, m, k)
                b = uniform(torch, dtype, n, k).t() if packed else uniform(torch, dtype, k, n)
                name = f"{'linear' if packed else 'matmul'} {m}x{n}x{k}"
                rows.append(table.measure(
                    name, dtype, "torch",
                    lambda budget: eadem.seconds(budget, work="gemm", dtype=dtype, m=m, n=n, k=k, packed=packed,
                                                 threads=table.threads),
                    lambda: torch.matmul(a, b), "GFLOP/s", 2e-9 * m * n * k))
            table.mean("packed weights" if packed else "row-major", rows)


def ops(eadem, table):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(table.threads)
    size = 4096
    for dtype in ("f32", "bf16"):
        x, y = uniform(torch, dtype, size, size), uniform(torch, dtype, size, size)
        gamma, beta = uniform(torch, dtype, size), uniform(torch, dtype, size)
        peers = {
            "exp": lambda: torch.exp(x), "tanh": lambda: torch.tanh(x), "gelu": lambda: F.gelu(x),
            "silu": lambda: F.silu(x), "add": lambda: x + y, "softmax": lambda: torch.softmax(x, -1),
            "layer_norm": lambda: F.layer_norm(x, (size,), gamma, beta), "sum0": lambda: x.sum(0),
            "sum1": lambda: x.sum(1),
        }
        for op in OPS:
            table.measure(f"{op} {size}x{size}", dtype, "torch",
                          lambda budget: eadem.seconds(budget, work="op", op=op, dtype=dtype, rows=size, columns=size,
                                                       threads=table.threads),
                          peers[op], "ms", None)
            for key in ("eadem", "peer"):
                table.rows[-1][key] *= 1e3


def attention(eadem, table):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(table.threads)
    for dtype in ("f32", "bf16"):
        q, k, v = (uniform(torch, dtype, 2, 8, 1024, 64) for _ in range(3))
        table.measure("attention causal 2x8x1024x64", dtype, "torch",
                      lambda budget: eadem.seconds(budget, work="attention", dtype=dtype, batch=2, heads=8, length=1024,
                                                   size=64, threads=table.threads),
                      lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), "1/s", 1)


def conv(eadem, table):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(table.threads)
    for dtype in ("f32", "bf16"):
        for backward in (False, True):
            for batch, extent, channels, outputs, taps, stride, groups in CONVOLUTIONS:
                x = uniform(torch, dtype, batch, channels, extent, extent).to(memory_format=torch.channels_last)
                w = uniform(torch, dtype, outputs, channels // groups, taps, taps).to(memory_format=torch.channels_last)

                def forward():
                    return F.conv2d(x, w, None, stride, (taps - 1) // 2, 1, groups)

                if backward:
                    x.requires_grad_(), w.requires_grad_()
                    dy = torch.rand_like(forward())
                name = (f"conv {taps}x{taps}{f'/{stride}' if stride > 1 else ''} {batch}x{extent}x{extent}x{channels}->{outputs}"
                        + (", a channel a group" if groups > 1 else "") + (", forward+backward" if backward else ""))
                products = 2e-9 * batch * (extent // stride) ** 2 * outputs * taps * taps * channels / groups
                table.measure(name, dtype, "torch",
                              lambda budget: eadem.seconds(budget, work="conv", dtype=dtype, batch=batch, extent=extent,
                                                           channels=channels, outputs=outputs, taps=taps, stride=stride,
                                                           groups=groups, backward=backward, threads=table.threads),
                              (lambda: torch.autograd.grad(forward(), (x, w), dy)) if backward else forward, "GFLOP/s",
                              products * (3 if backward else 1))


def llm(eadem, table):
    model = subprocess.run([ROOT / "scripts/get-model"], capture_output=True, text=True, check=True).stdout.strip()
    if not model.endswith(".gguf"):
        sys.exit("bench/peers/run: llm needs SmolLM2, which could not be got")
    from llama_cpp import Llama
    peer = Llama(model_path=model, n_ctx=1024, n_batch=512, n_threads=table.threads, n_threads_batch=table.threads,
                 logits_all=False, verbose=False)
    tokens = [i * 7919 % 40000 + 100 for i in range(512)]

    def peer_prefill():
        peer.reset()
        peer.eval(tokens)

    def peer_decode():
        peer.n_tokens = 480  # eval drops what the cache holds from there on
        for token in tokens[480:]:
            peer.eval([token])

    for dtype in ("bf16", "f32"):
        table.measure("prefill 512", dtype, "llama.cpp",
                      lambda budget: eadem.seconds(budget, work="prefill", dtype=dtype, model=model, tokens=512,
                                                   threads=table.threads),
                      peer_prefill, "tokens/s", 512, budget=1)
        peer.reset()
        peer.eval(tokens[:480])
        def decode(budget):
            return eadem.seconds(budget, work="decode", dtype=dtype, model=model, begin=480, end=512, threads=table.threads)

        table.measure("decode 480..512", dtype, "llama.cpp", decode, peer_decode, "tokens/s", 32, budget=1)
        # How near decode comes to only reading its weights, by turns, as a machine's bandwidth varies by the minute.
        weights = eadem.ask(work="info", dtype=dtype, model=model, threads=table.threads)["weight_bytes"]
        table.measure_timed("decode: reading its weights", dtype, "only reading", decode,
                            lambda _: 32 * eadem.ask(work="read", dtype=dtype, bytes=weights,
                                                     threads=table.threads)["seconds"],
                            "GB/s", 32e-9 * weights, budget=1)


def dispatch(eadem, table):
    import torch
    torch.set_num_threads(table.threads)
    x, y = torch.tensor([1.0, 2, 3, 4]), torch.tensor([5.0, 6, 7, 8])

    def peer():
        for _ in range(1000):
            torch.add(x, y)

    table.measure("eager add of 4 elements", "f32", "torch",
                  lambda budget: eadem.seconds(budget, work="dispatch", dtype="f32", threads=table.threads), peer, "ns", None)
    for key in ("eadem", "peer"):
        table.rows[-1][key] *= 1e6


def transforms(eadem, table):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(table.threads)
    size = 4096

    def milliseconds():
        for key in ("eadem", "peer"):
            table.rows[-1][key] *= 1e3

    jax = jax_worker(table.threads)

    def against_jax(name, dtype, eadem_request, jax_work):
        table.measure_timed(name, dtype, "jax.jit",
                            lambda budget: eadem.seconds(budget, dtype=dtype, threads=table.threads, **eadem_request),
                            lambda budget: jax.seconds(budget, work=jax_work, dtype=dtype), "ms")
        milliseconds()

    def expression(x):
        return F.gelu(1.5 * x + 2) * torch.sigmoid(x)

    for dtype in ("f32", "bf16"):
        x = uniform(torch, dtype, size, size)
        compiled = torch.compile(expression)
        compiled(x)
        for peer, work in (("torch.compile", lambda: compiled(x)), ("torch", lambda: expression(x))):
            table.measure("gelu(1.5x+2) sigmoid(x) 4096^2", dtype, peer,
                          lambda budget: eadem.seconds(budget, work="fused", dtype=dtype, rows=size, columns=size,
                                                       threads=table.threads), work, "ms")
            milliseconds()
        against_jax("gelu(1.5x+2) sigmoid(x) 4096^2", dtype, dict(work="fused", rows=size, columns=size), "fused")

    for dtype in ("f32", "bf16"):
        # Eadem against itself: the loop written out is the peer.
        pairs = [tuple(eadem.seconds(0.2, work="layers", dtype=dtype, scan=scan, threads=table.threads)
                       for scan in (True, False)) for _ in range(ROUNDS)]
        table.add("48 layers, value+gradient: scan", dtype, "loop", pairs, "ms")
        milliseconds()
        against_jax("48 layers, value+gradient: scan", dtype, dict(work="layers", scan=True), "layers")

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(512), torch.nn.LayerNorm(512)
            self.qkv, self.out = torch.nn.Linear(512, 1536), torch.nn.Linear(512, 512)
            self.up, self.down = torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 512)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            h = x + self.out(mixed)
            return h + self.down(F.gelu(self.up(self.norm2(h))))

    for dtype in ("f32", "bf16"):
        block = Block().to(torch_dtype(torch, dtype))
        x = uniform(torch, dtype, 4, 256, 512).requires_grad_()
        for peer, module, compiled in (("torch", block, False), ("torch.compile", torch.compile(block), True)):
            def work():
                block.zero_grad(set_to_none=True)
                x.grad = None
                module(x).sum().backward()

            work()
            table.measure("block 4x256x512 forward+backward" + (", compiled" if compiled else ""), dtype, peer,
                          lambda budget: eadem.seconds(budget, work="block", dtype=dtype, compiled=compiled,
                                                       threads=table.threads), work, "ms")
            milliseconds()
        against_jax("block 4x256x512 forward+backward, compiled", dtype, dict(work="block", compiled=True), "block")
    jax.process.stdin.close()
    jax.process.wait()


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def write_markdown(path, report, notes):
    """Replaces what stands between the markers of docs/performance.md."""
    begin, end = "<!-- made by bench/peers/run: begin -->\n", "<!-- end -->\n"
    lines = [f"{report['machine']['cpu']}, {report['machine']['cores']} cores, target {report['machine']['target']}: "
             f"{report['machine']['fma_gflops']:.0f} GFLOP/s f32 FMA, {report['machine']['read_gb_per_s']:.1f} GB/s read at "
             f"90 MiB (2 threads). Peers: " + ", ".join(f"{k} {v}" for k, v in report["versions"].items()) +
             ". Ratio: median of " + str(ROUNDS) + " rounds by turns (least, most).", "",
             "| work | dtype | threads | Eadem | peer | unit | peer's name | ratio |", "|---|---|---|---|---|---|---|---|"]
    for r in report["rows"]:
        lines.append(f"| {r['work']} | {r['dtype']} | {r['threads']} | {number(r['eadem'])} | {number(r['peer'])} | {r['unit']} | "
                     f"{r['peer_name']} | **{r['ratio']:.2f}** ({r['ratio_min']:.2f}, {r['ratio_max']:.2f}) |")
    lines += [""] + [f"- {note}" for note in notes] + [""]
    text = pathlib.Path(path).read_text()
    head, rest = text.split(begin)
    pathlib.Path(path).write_text(head + begin + "\n".join(lines) + end + rest.split(end)[1])


def machine():
    name = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown")
    return {"cpu": name, "cores": len(os.sched_getaffinity(0))}


def versions():
    import importlib.metadata as metadata
    found = {}
    for package in ("torch", "jax", "numpy", "llama-cpp-python"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def main():
    works = {"gemm": gemm, "ops": ops, "attention": attention, "conv": conv, "llm": llm, "dispatch": dispatch, "transforms": transforms}
    parser = argparse.ArgumentParser(prog="bench/peers/run", description=__doc__,
                                     epilog="Example: bench/peers/run gemm ops --threads 2 --json result.json")
    parser.add_argument("work", nargs="*", help="gemm, ops, attention, conv, llm, dispatch, transforms (default: all)")
    parser.add_argument("--threads", type=int, action="append", help="default: 1, then 2; may be given more than once")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--markdown", help="put the table into this file, between its markers (docs/performance.md)")
    arguments = parser.parse_args()
    for work in arguments.work:
        if work not in works:
            parser.error(f"unknown work '{work}'; known: {' '.join(works)}")
    eadem, rows, notes = eadem_worker(), [], []
    info = eadem.ask(work="info", dtype="f32", threads=2)
    print(f"{machine()['cpu']}, target {info['target']}: {info['fma_gflops']:.0f} GFLOP/s f32 FMA, "
          f"{info['read_gb_per_s']:.1f} GB/s read at 90 MiB (2 threads); peers {versions()}")
    print(f"{'work':<34} dtype threads  eadem       peer unit      peer       ratio (min-max of {ROUNDS} rounds)")
    for threads in arguments.threads or [1, 2]:
        table = Table(threads)
        for work in arguments.work or works:
            works[work](eadem, table)
        rows += table.rows
        notes += table.notes
    report = {"machine": machine() | info, "versions": versions(), "rows": rows, "notes": notes}
    if arguments.markdown:
        write_markdown(arguments.markdown, report, notes)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

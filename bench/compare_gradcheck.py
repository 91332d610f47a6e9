#!/usr/bin/python3
"""Worst error and time of `tapehead gradcheck` and of torch.autograd.gradcheck on the same functions.

    /usr/bin/python3 bench/compare_gradcheck.py [--program build/bin/tapehead]

Prints the Markdown table of docs/gradcheck.md. Both check every element in f64, on one thread, with
normal random inputs of equal shapes.

torch.autograd.gradcheck says only whether all is within its tolerances. Its worst error is taken from
what it compares: its own numeric Jacobian (central differences with its default step 1e-6) and its own
analytic one, from the functions that it calls itself. The error of an entry counts relative to the
largest entry of the same block (one input, one output), or of the whole function where that block is 0;
tapehead's relative to the largest gradient of the same tensor, by the same rule.

The last column is the largest of 1e-1, 1e-2, .. 1e-7 by which torch.autograd.gradcheck, with its default
tolerances, let the gradient of the first input be off (times 1 + x). tapehead's self-test plants 1e-6.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("compare_gradcheck: this Python has no torch; install python3-torch and run it with "
             "/usr/bin/python3")

BATCH, TIME, WIDTH, HEADS, HIDDEN, SYMBOLS = 2, 5, 12, 4, 24, 10
SIZES = ["--batch", str(BATCH), "--time", str(TIME), "--width", str(WIDTH)]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def ids(*shape):
    return torch.randint(SYMBOLS, shape)


def blocked_future():
    return torch.ones(TIME, TIME).triu(1).bool()


def dot_product(mask):
    def function(q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        return scores.softmax(-1) @ v

    return function


def with_parameters(module, inputs, call):
    """The module as a function of its inputs and of all its parameters."""
    from torch.nn.utils.stateless import functional_call

    module = module.double()
    names = [name for name, _ in module.named_parameters()]
    values = [p.detach() + torch.empty_like(p).uniform_(-0.3, 0.3) for p in module.parameters()]

    def function(*tensors):
        parameters = dict(zip(names, tensors[len(inputs):]))
        return call(lambda *x, **more: functional_call(module, parameters, x, more),
                    *tensors[:len(inputs)])

    return function, [*inputs, *(v.requires_grad_() for v in values)]


def multi_head(mask):
    x = [normal(BATCH, TIME, WIDTH) for _ in range(3)]
    return with_parameters(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), x,
                           lambda f, q, k, v: f(q, k, v, attn_mask=mask, need_weights=False)[0])


def encoder_layer():
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0, activation="gelu",
                                             batch_first=True)
    return with_parameters(layer, [normal(BATCH, TIME, WIDTH)], lambda f, x: f(x))


def functions():
    """Name, words for tapehead, function and inputs for torch."""
    nn = torch.nn.functional
    x = lambda: normal(BATCH, TIME, WIDTH)
    heads = lambda: [normal(BATCH, HEADS, TIME, WIDTH) for _ in range(3)]
    targets = ids(BATCH * TIME)
    yield "softmax", ["softmax"], lambda a: a.softmax(-1), [x()]
    yield ("layer norm", ["layer_norm"], lambda a, g, b: nn.layer_norm(a, (WIDTH,), g, b),
           [x(), normal(WIDTH), normal(WIDTH)])
    yield ("linear", ["linear", "--hidden", str(HIDDEN)], lambda a, w, b: a @ w + b,
           [x(), normal(WIDTH, HIDDEN), normal(HIDDEN)])
    yield ("cross entropy", ["cross_entropy", "--symbols", str(SYMBOLS)],
           lambda a: nn.cross_entropy(a.reshape(-1, SYMBOLS), targets),
           [normal(BATCH, TIME, SYMBOLS)])
    few = ["--heads", str(HEADS)]
    yield "scaled dot-product", ["dot-product", *few], dot_product(None), heads()
    yield ("scaled dot-product, causal", ["dot-product", *few, "--mask", "causal"],
           dot_product(blocked_future()), heads())
    yield ("multi-head attention", ["attention", *few], *multi_head(None))
    yield ("multi-head attention, causal", ["attention", *few, "--mask", "causal"],
           *multi_head(blocked_future()))
    yield ("encoder layer", ["encoder-layer", *few, "--hidden", str(HIDDEN), "--activation", "gelu"],
           *encoder_layer())


def torch_worst(function, inputs):
    check = sys.modules["torch.autograd.gradcheck"]
    output = function(*inputs)
    inputs = tuple(inputs)
    numeric = check._get_numerical_jacobian(function, inputs, (output,), eps=1e-6)
    analytic = check._check_analytical_jacobian_attributes(inputs, output, 0.0, True)
    blocks = [(row[0], a) for row, a in zip(numeric, analytic)]
    whole = max(a.abs().max().item() for _, a in blocks)
    worst = 0
    for n, a in blocks:
        scale = a.abs().max().item()
        error = (n - a).abs().max().item()
        # A block that is 0 but for rounding, such as that of a key bias.
        worst = max(worst, error / (scale if scale > 1e-12 * whole else whole))
    return worst


class Off(torch.autograd.Function):
    """The identity, with a gradient that is off by a factor."""

    @staticmethod
    def forward(context, x, by):
        context.by = by
        return x.clone()

    @staticmethod
    def backward(context, dy):
        return dy * (1 + context.by), None


def torch_lets_pass(function, inputs):
    for exponent in range(1, 8):
        by = 10.0 ** -exponent
        if torch.autograd.gradcheck(lambda a, *rest: function(Off.apply(a, by), *rest), inputs,
                                    raise_exception=False):
            return f"1e-{exponent}"
    return "none"


def tapehead(program, words):
    command = [program, "gradcheck", *words, *SIZES, "--json"]
    one_thread = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, env=one_thread)
    if done.returncode != 0:
        sys.exit(f"compare_gradcheck: '{' '.join(command)}' ended with status {done.returncode}: "
                 f"{done.stderr.strip()}")
    suite = json.loads(done.stdout)
    report = suite["modules"][0]
    return report["worst_relative"], suite["seconds"], report["compared"] // 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/bin/tapehead")
    program = parser.parse_args().program
    if not os.access(program, os.X_OK):
        sys.exit(f"compare_gradcheck: there is no program at '{program}'; build it with `make`, or "
                 "say where it is with --program")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print("| | elements | tapehead: worst error | seconds | torch: worst error | seconds | "
          "torch passes a gradient off by |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, words, function, inputs in functions():
        worst, seconds, elements = tapehead(program, words)
        count = sum(x.numel() for x in inputs)
        if count != elements:
            sys.exit(f"compare_gradcheck: {name}: tapehead checked {elements} elements, torch has "
                     f"{count}: the functions are not the same")
        start = time.perf_counter()
        torch.autograd.gradcheck(function, inputs)
        torch_seconds = time.perf_counter() - start
        print(f"| {name} | {elements} | {worst:.1e} | {seconds:.3f} | "
              f"{torch_worst(function, inputs):.1e} | {torch_seconds:.3f} | "
              f"{torch_lets_pass(function, inputs)} |")


if __name__ == "__main__":
    main()
